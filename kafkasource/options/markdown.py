"""The tables of docs/options.md, made from the table of options."""

from __future__ import annotations

from typing import Literal

from kafkasource.options.table import OPTIONS


def markdown_table(part: Literal["source", "sink", "both"]) -> str:
    """A table of docs/options.md: the options of reading alone, of writing alone, or of both."""
    roles = {"source", "sink"} if part == "both" else {part}
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        if set(option.used_by) != roles:
            continue
        default = (
            ""
            if option.default is None
            else f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"
        )
        names = f"`{option.name}`" + "".join(f" (alias `{alias}`)" for alias in option.aliases)
        doc = option.doc + (f" Java or the JVM connector: {option.differs}." if option.differs else "")
        lines.append(f"| {names} | {option.type.name} | {default} | {doc} |")
    return "\n".join(lines)
