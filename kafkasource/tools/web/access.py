"""Decides which requests a server of ours accepts: by the request's host name, and by a token. Pure: no socket.

Another website in the user's browser can reach this server by DNS rebinding: its own name then resolves to 127.0.0.1,
and the browser takes our responses for that website's. Such a request has the other name in `Host`, so the server
refuses unknown names. It knows `localhost`, loopback addresses, the address that the connection arrived at, the
machine's own name where it listens beyond loopback, and names that the user adds.

With a token, every request but those for the page and its files must send it. The page holds no data; it takes the
token from the fragment of its address (`/#token=...`), which browsers send to no server, and sends it in a header. A
page of another origin cannot send that header, so it can read and change nothing here.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkasource.errors import OptionError

LOOKED_AT = ("Host", "Origin", "Authorization")


@dataclass(frozen=True, slots=True)
class ServerKind:
    """The kind of a server of ours, for its messages, its page, and the environment variables that it reads."""

    name: str  # "the metrics server"
    environment: str  # what its variables begin with
    names_from: str  # where a user adds a host name
    token_from: str  # where a user gives the token
    thread: str
    policy: str  # the Content-Security-Policy of its page
    open_paths: frozenset[str] = frozenset({"/"})  # without data, so they need no token

    def variable(self, name: str) -> str | None:
        """The value of `<environment>_<name>`; None where it is not set, or empty."""
        return os.environ.get(f"{self.environment}_{name}") or None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The HTTP status, and a text for the client."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Access:
    """The conditions that a request must meet. `names` in lower case, without ports."""

    kind: ServerKind
    names: frozenset[str]
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, kind: ServerKind, names: Iterable[str], token: str | None) -> Access:
        """Raises OptionError for a token that no client can send."""
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise OptionError(
                f"the token of {kind.name} must be printable ASCII, at least one character, without spaces at its"
                f" ends: change {kind.token_from}"
            )
        return cls(kind, frozenset(name for given in names if (name := host_of(given))), token)

    def refusal(self, path: str, headers: Mapping[str, str], local_address: str) -> Refusal | None:
        """None: accept the request. `headers`: those of LOOKED_AT that it has. `local_address`: where the request
        arrived."""
        host = headers.get("Host", "")
        if not self._knows(host_of(host), local_address):
            return Refusal(
                421, f"this server is not known as {host_of(host)!r}: give the name to {self.kind.names_from}"
            )
        origin = headers.get("Origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return Refusal(403, f"a page of {origin} may not read this")
        needs_token = self.token is not None and path not in self.kind.open_paths
        if needs_token and not self._has_token(headers.get("Authorization", "")):
            return Refusal(401, "send the token: Authorization: Bearer ..., or open the page as /#token=...")
        return None

    def _knows(self, name: str, local_address: str) -> bool:
        if name == "localhost" or name in self.names:
            return True
        address = None if "%" in name else _address(name)  # no name has a zone, and `127.0.0.1%.evil` is a name
        return address is not None and (address.is_loopback or address == _address(local_address))

    def _has_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        right = hmac.compare_digest(token.strip().encode("utf-8", "replace"), (self.token or "").encode())
        return scheme.lower() == "bearer" and right


def host_of(text: str) -> str:
    """The name in a Host header, or in a name that may have a port: without port and IPv6 brackets, in lower case."""
    text = text.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text if text.count(":") > 1 else text.partition(":")[0].rstrip(".")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
