"""One row of the table of options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kafkasource.errors import OptionError
from kafkasource.options.types import Type

Role = Literal["source", "sink"]
SOURCE: tuple[Role, ...] = ("source",)
SINK: tuple[Role, ...] = ("sink",)
BOTH: tuple[Role, ...] = ("source", "sink")


@dataclass(frozen=True)
class Option:
    """One row of the table. `default` is already typed; None means "not set". Bounds are inclusive."""

    name: str
    type: Type
    default: Any
    used_by: tuple[Role, ...]
    doc: str
    at_least: int | None = None
    at_most: int | None = None
    aliases: tuple[str, ...] = ()
    differs: str = ""  # why our default is not Java's or the JVM connector's
    complaint: str = ""  # how the JVM connector's error begins, for those who search for it

    def parse(self, text: str) -> Any:
        try:
            value = self.type.parse(text)
        except (ValueError, KeyError):
            raise self.error(text) from None
        if isinstance(value, int) and not isinstance(value, bool):
            low, high = self.at_least, self.at_most
            if (low is not None and value < low) or (high is not None and value > high):
                raise self.error(text)
        return value

    @property
    def allowed(self) -> str:
        low, high = self.at_least, self.at_most
        bounds = ""
        if low is not None and high is not None:
            bounds = f" from {low} to {high}"
        elif low is not None:
            bounds = f" of at least {low}"
        return self.type.expected + bounds

    def error(self, text: str) -> OptionError:
        complaint = f"{self.complaint}: " if self.complaint else ""
        return OptionError(f"option {self.name!r}: {complaint}expected {self.allowed}, got {text!r}")
