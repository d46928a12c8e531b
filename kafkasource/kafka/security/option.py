"""A row of a table of options: name, type, default, bounds, and rules that name other options.

The tables of TLS and SASL are in `kafka.security`; the table of all options that a user may set is `options.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from kafkasource.errors import OptionError
from kafkasource.kafka.security.secrets import Secret

T_co = TypeVar("T_co", covariant=True)
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
Role = Literal["source", "sink"]
Place = Literal["batch", "reader"]  # a batch read of Spark, `kafkasource.Reader`
SOURCE: tuple[Role, ...] = ("source",)
SINK: tuple[Role, ...] = ("sink",)
BOTH: tuple[Role, ...] = ("source", "sink")


class Misspelt(ValueError):
    """An error whose text follows "expected ..., got ..."."""


@dataclass(frozen=True)
class Type(Generic[T_co]):
    """A type of options. `parse` makes a value of a text, or raises ValueError; the error shows the text of a Misspelt.
    `expected` completes "expected ..."."""

    expected: str
    parse: Callable[[str], T_co]


# May be empty: the code that reads it says what is wrong then. Numbers of TLS, SASL and the registry are texts, too,
# because they may be references to secrets.
TEXT = Type("a text", str)
SECRET = Type("a text", Secret)  # may be empty, and never prints


def as_text(value: object) -> str:
    """A typed value as a user writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def any_of(words: Iterable[str]) -> str:
    """`avro, protobuf or json`"""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


@dataclass(frozen=True)
class Other:
    """A condition on another option of the same read or write, for `Option.only` and `Option.not_with`.

    It holds while the other option has one of `values` (when none are named: while it has any value at all), or a
    number of at most `at_most`.
    """

    name: str
    values: tuple[object, ...] = ()
    at_most: int | None = None
    mine: tuple[object, ...] = ()  # the rule counts while the row's own option has one of these values; empty: any
    why: str = ""  # what would go wrong: a clause of the error

    def holds(self, value: object) -> bool:
        """`value`: what the other option has, typed."""
        if self.at_most is not None:
            return isinstance(value, int) and value <= self.at_most
        return value in self.values if self.values else value is not None

    def counts(self, own: object) -> bool:
        """Whether the rule applies to the value that the user gave to the row's own option. To switch a feature off
        (false) breaks no rule."""
        return own in self.mine if self.mine else own is not False

    @property
    def wanted(self) -> str:
        if self.at_most is not None:
            return f"{self.name!r} of at most {self.at_most}"
        return f"{self.name!r}={any_of(map(as_text, self.values))}" if self.values else repr(self.name)


@dataclass(frozen=True)
class Option:
    """One row of a table. `default` is already typed; None means "not set". Bounds are inclusive."""

    name: str
    type: Type[object]
    doc: str
    default: object = None
    used_by: tuple[Role, ...] = BOTH
    at_least: int | None = None
    at_most: int | None = None  # beside `at_least`: MAX_INT32 where it is not given
    aliases: tuple[str, ...] = ()
    differs: str = ""  # if our default is not Java's: Java's default, and why ours is another
    complaint: str = ""  # how the JVM connector's error begins, so that users find it by a search
    only: tuple[Other, ...] = ()  # all of these must hold where the user gives this option
    not_with: tuple[Other, ...] = ()  # and none of these
    per_cluster: bool = True  # False: for the whole write, so one of several `clusters` cannot have its own
    implied: str = ""  # where `default` is None: the text that the code which reads the option then assumes
    text_options: tuple[str, ...] = ()  # of an option that names a file: the options for the same as text
    no_effect_in: tuple[Place, ...] = ()  # where a read ignores or refuses the option

    def parse(self, text: str) -> Any:
        try:
            value = self.type.parse(text)
        except Misspelt as error:
            raise self.error(text, f": {error}") from None
        except (ValueError, KeyError):
            raise self.error(text) from None
        low, high = self._bounds
        if low is not None and isinstance(value, int) and not low <= value <= high:
            raise self.error(text)
        return value

    @property
    def _bounds(self) -> tuple[int | None, int]:
        return self.at_least, MAX_INT32 if self.at_most is None else self.at_most

    @property
    def allowed(self) -> str:
        low, high = self._bounds
        return self.type.expected + ("" if low is None else f" from {low} to {high}")

    def error(self, text: str, why: str = "") -> OptionError:
        complaint = f"{self.complaint}: " if self.complaint else ""
        return OptionError(f"option {self.name!r}: {complaint}expected {self.allowed}, got {text!r}{why}")

    def check(self, value: object, other: Callable[[str], object]) -> None:
        """Compare the value that the user gave with the options named in `only` and `not_with`. Raises OptionError.

        `other` gives the typed value of another option by its name, or None if it is not set.
        """
        for rule in self.only:
            other_value = other(rule.name)
            if rule.counts(value) and not rule.holds(other_value):
                got = "" if other_value is None else f", got {as_text(other_value)!r}"
                why = f": {rule.why}" if rule.why else ""
                raise OptionError(
                    f"option {self._given(value, rule)} needs {rule.wanted}{got}{why}. "
                    f"Set {rule.wanted}, or leave out {self.name!r}"
                )
        for rule in self.not_with:
            if rule.counts(value) and rule.holds(other(rule.name)):
                raise OptionError(
                    f"option {self._given(value, rule)} cannot be combined with "
                    f"{rule.name!r}={as_text(other(rule.name))}: {rule.why}. Leave out one of the two"
                )

    def _given(self, value: object, rule: Other) -> str:
        return f"{self.name!r}={as_text(value)}" if rule.mine else repr(self.name)


@dataclass(frozen=True)
class RefusedOption:
    """An option of Kafka or of the JVM connector that this connector refuses, because it could only ignore it."""

    name: str  # a name that ends with a dot means all options that begin with it
    instead: str  # what to do

    def matches(self, key: str) -> bool:
        lower, name = key.lower(), self.name.lower()
        return lower.startswith(name) if name.endswith(".") else lower == name

    def error(self, key: str) -> OptionError:
        kafkas = self.name.startswith("kafka.")
        name = f"Kafka option {self.name[len('kafka.') :]!r}" if kafkas else f"option {self.name!r}"
        return OptionError(f"{name} is not supported: {self.instead}")


# Rows of TLS and SASL. Their tables leave out the prefix `kafka.`, because a registry has another one.


def with_prefix(row: Option, prefix: str, *, per_cluster: bool = True) -> Option:
    """The row under the full name that users write."""
    aliases = tuple(f"{prefix}{alias}" for alias in row.aliases)
    return replace(row, name=f"{prefix}{row.name}", aliases=aliases, per_cluster=per_cluster)


def with_alias(row: Option) -> str:
    """The option in an error, with its alias."""
    return shown(row.name) + "".join(f" ({shown(alias)} for librdkafka)" for alias in row.aliases)


# Java's defaults of options that this client refuses: property files often repeat them.
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
