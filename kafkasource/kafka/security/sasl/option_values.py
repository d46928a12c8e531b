"""Typed values of options. Errors name the option and the expected value, never the given one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import Option, checked_path, shown, with_alias
from kafkasource.kafka.security.secrets import Secret


class OptionValues:
    """Options by Java's names; one that is not given has its row's implied value."""

    def __init__(self, given: Mapping[str, str], rows: Mapping[str, Option]) -> None:
        self._given, self._rows = given, rows

    def with_default(self, name: str, text: str) -> OptionValues:
        return OptionValues({name: text, **self._given}, self._rows)

    def is_given(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """None for an option that has neither value nor default."""
        return self._given.get(name, self._rows[name].implied) or None

    def implied(self, name: str) -> str:
        return self._rows[name].implied

    def path(self, name: str) -> str | None:
        """Return a file's path. Raises OptionError if the value is the text of a file."""
        path = self.text(name)
        return path and checked_path(
            shown(name), path, (with_alias(self._rows[other]) for other in self._rows[name].text_options)
        )

    def secret(self, name: str) -> Secret | None:
        text = self.text(name)
        return None if text is None else Secret(text)

    def flag(self, name: str) -> bool:
        text = (self.text(name) or "").lower()
        if text not in ("true", "false"):
            raise OptionError(f"option {shown(name)}: expected true or false")
        return text == "true"

    def whole(self, name: str, at_least: int, at_most: int) -> int:
        """Bounds are inclusive."""
        return int(self._number(name, int, "a whole number", at_least, at_most))

    def real(self, name: str, at_least: float, at_most: float) -> float:
        """Bounds are inclusive."""
        return self._number(name, float, "a number", at_least, at_most)

    def _number(self, name: str, parse: Callable[[str], float], what: str, at_least: float, at_most: float) -> float:
        try:
            number = parse(self.text(name) or "")
        except ValueError:
            number = at_least - 1
        if not at_least <= number <= at_most:
            raise OptionError(f"option {shown(name)}: expected {what} from {at_least} to {at_most}")
        return number
