"""A token that another program writes into a file, as Kubernetes does: a token endpoint with a URL `file:...`."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasource.errors import TokenNotAvailable
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.shipped_files import find_file
from kafkasource.kafka.security.tokens.token import MOST_TOKEN_BYTES, AccessToken, token_of


def text_of_file(path: str, what: str) -> str:
    """A file's text without blanks around it. Raises TokenNotAvailable: another program may write the file later."""
    file = find_file(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_TOKEN_BYTES + 3)
        return data.decode("ascii").strip()
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not ASCII text"
    raise TokenNotAvailable(f"the file {file} with {what} cannot be read on this machine: {reason}")


@dataclass(frozen=True)
class TokenFile:
    """Read at each authentication, so a new token counts at once."""

    path: str  # `shipped_files.find_file` says where a relative one lies
    waits = False

    @property
    def origin(self) -> str:
        return f"the file {self.path}"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        return token_of(text_of_file(self.path, "the OAuth token"), now_s)
