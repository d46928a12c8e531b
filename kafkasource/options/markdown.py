"""The tables of docs/options.md, made from the table of options."""

from __future__ import annotations

from typing import Literal

from kafkasource.kafka.security.option import Option, Other, any_of, as_text
from kafkasource.options.table import OPTIONS


def markdown_table(part: Literal["source", "sink", "both"]) -> str:
    """The options only for reading, only for writing, or for both, as one table of docs/options.md."""
    roles = {"source", "sink"} if part == "both" else {part}
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    lines += [_line(option) for option in OPTIONS if set(option.used_by) == roles]
    return "\n".join(lines)


def _line(option: Option) -> str:
    default = option.implied if option.default is None else as_text(option.default)
    names = f"`{option.name}`" + "".join(f" (alias `{alias}`)" for alias in option.aliases)
    needs = [_wanted(rule) for rule in option.only if not rule.mine and rule.at_most is None]
    only = f"Only with {' and '.join(needs)}. " if needs else ""
    if "batch" in option.no_effect_in:
        only = f"For streams. {only}"
    differs = f" Java's default is {option.differs}." if option.differs else ""
    return f"| {names} | {option.type.name} | {default and f'`{default}`'} | {only}{option.doc}{differs} |"


def _wanted(rule: Other) -> str:
    if not rule.values:
        return f"`{rule.name}`"
    first, *others = map(as_text, rule.values)
    return any_of([f"`{rule.name}={first}`", *(f"`{value}`" for value in others)])
