"""SASL options as plans hold them, and how the process that connects reads their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkasource.errors import OptionError
from kafkasource.kafka.security.exchange import shown_url
from kafkasource.kafka.security.option import SECRET, shown
from kafkasource.kafka.security.sasl import jaas, mechanisms
from kafkasource.kafka.security.sasl.credentials import SaslConfig
from kafkasource.kafka.security.sasl.option_values import OptionValues
from kafkasource.kafka.security.sasl.options import BY_NAME, canonical, vendor_defaults
from kafkasource.kafka.security.secrets import References, Secret, has_reference


@dataclass(frozen=True)
class SaslOptions:
    """The SASL options of one cluster as the user has given them: references in them are names still.

    Pickles into plans and tasks; a cache key. `repr` shows no value of an option that may be secret.
    """

    given: tuple[tuple[str, Secret], ...] = field(repr=False)  # sorted by name; Java's names
    references: References = field(default_factory=References)

    @classmethod
    def of(cls, options: Mapping[str, str], host: str = "") -> SaslOptions:
        """From all options of a cluster without their prefix `kafka.`; those that are not SASL's are passed over.

        `host`: a bootstrap server's. Without references everything is checked here, on the driver; with some, what
        can be checked before they are resolved. Raises OptionError.
        """
        every = {**vendor_defaults(options), **options}
        given = canonical(every)
        parsed = cls(tuple((name, Secret(given[name])) for name in sorted(given)), References.of(options))
        if not any(map(has_reference, given.values())):
            parsed.resolve(host)
        return parsed

    @property
    def mechanism(self) -> str:
        """Return the mechanism that the options name, or the default, in upper case."""
        given = dict(self.given).get("sasl.mechanism")
        return (BY_NAME["sasl.mechanism"].implied if given is None else given.reveal()).upper()

    def resolve(self, host: str) -> SaslConfig:
        """The values, with what references stand for now. For the process that connects. Raises OptionError."""
        texts = self.references.resolve_all({name: text.reveal() for name, text in self.given})
        return read(texts, host)

    def __repr__(self) -> str:
        return f"SaslOptions({', '.join(f'{name}={_printed(name, text)}' for name, text in self.given)})"


def _printed(name: str, text: Secret) -> str:
    if BY_NAME[name].type is SECRET:
        return str(text)
    return shown_url(text.reveal()) if name.endswith(".url") else text.reveal()


def read(options: Mapping[str, str], host: str = "") -> SaslConfig:
    """Read canonical options (`options.canonical`) whose references are resolved. Raises OptionError."""
    values = OptionValues(options, BY_NAME)
    text = options.get("sasl.jaas.config")
    module = None if text is None else jaas.parse(text)
    name = (values.text("sasl.mechanism") or "").upper()
    row = mechanisms.BY_NAME.get(name)
    if row is None:
        known = ", ".join(mechanism.name for mechanism in mechanisms.ROWS)
        raise OptionError(f"option {shown('sasl.mechanism')}: expected one of {known}")
    if name == "AWS_MSK_IAM":
        values = values.with_default("auth", "aws")
    _check_names(row.name, module, options)
    return row.read(values, module, host, row.name)


def _check_names(mechanism: str, module: jaas.LoginModule | None, options: Mapping[str, str]) -> None:
    """Raises OptionError where mechanism, login module and options do not go together."""
    served = [mechanism] if module is None else mechanisms.of_module(module)
    if mechanism not in served:
        raise OptionError(
            f"option {shown('sasl.jaas.config')} has a login module for {' or '.join(served)}, but "
            f"{shown('sasl.mechanism')} is {mechanism}" + ("" if "sasl.mechanism" in options else " unless it is given")
        )
    for name in options:
        others = mechanisms.of_option(name)  # of another mechanism than the given one they have no effect, as in Java
        if others and mechanism not in others and "sasl.mechanism" not in options:
            raise OptionError(
                f"option {shown(name)} is for {' and '.join(others)}: set {shown('sasl.mechanism')}, which is "
                f"{mechanism} unless it is given"
            )
        if name in ("sasl.username", "sasl.password") and module is not None:
            raise OptionError(f"options {shown(name)} and {shown('sasl.jaas.config')} both give credentials: give one")
