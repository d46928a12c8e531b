"""What a row of the tables of TLS's and SASL's options is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.errors import OptionError


@dataclass(frozen=True)
class SecurityOption:
    name: str  # Java's, where Java has it; without `kafka.`
    doc: str
    alias: str = ""  # librdkafka's
    secret: bool = False
    default: str = ""  # as a user writes it; empty: not set
    differs: str = ""  # where Java's default is another: which, and why
    as_text: tuple[str, ...] = ()  # of one that names a file: the options for the same as text
    kind: str = "string"  # what people read of its value, which is a text here

    @property
    def shown(self) -> str:
        """The option in an error."""
        return shown(self.name) + (f" ({shown(self.alias)} for librdkafka)" if self.alias else "")


# Options that this client refuses, at the values that they have in Java anyway: files of the field write them out.
_JAVAS_DEFAULTS = {
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "60000",
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "sasl.kerberos.ticket.renew.window.factor": "0.8",
    "sasl.oauthbearer.clock.skew.seconds": "30",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "3600000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
    "sasl.oauthbearer.scope.claim.name": "scope",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.trustmanager.algorithm": "PKIX",
}


def is_javas_default(name: str, text: str) -> bool:
    """Whether a refused option has the value that it has in Java where nobody sets it; there it changes nothing."""
    return name in _JAVAS_DEFAULTS and text.strip() == _JAVAS_DEFAULTS[name]


def shown(name: str) -> str:
    """A name as a user of Spark's options writes it, quoted."""
    return f"'kafka.{name}'"


def checked_path(option: str, path: str, as_text: Iterable[str] = ()) -> str:
    """A path as the user gives it. Raises OptionError, which does not quote it, for the text of a file in its place.

    That text may be a private key, and errors name the paths of files. `option`, `as_text`: as errors name them.
    """
    if "-----BEGIN" not in path and len(path.splitlines()) < 2:
        return path
    instead = " and ".join(as_text)
    raise OptionError(
        f"option {option}: expected the path of a file, and this is the text of one. "
        + (f"Text is for {instead}" if instead else "Write it into a file, and give its path")
    )
