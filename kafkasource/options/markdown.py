"""The tables of docs/options.md and of the two pages beside it, made from the table of options."""

from __future__ import annotations

from kafkasource.kafka.security.option import SECRET, Option, Other, any_of, as_text
from kafkasource.kafka.security.tls import options as tls_options
from kafkasource.options import registry
from kafkasource.options.security import SECURITY_SECTIONS
from kafkasource.options.table import PAGES, SECTIONS
from kafkasource.options.types import BYTES, DURATION, MILLISECONDS, SIZE

LIKE_THE_BROKERS = {f"{registry.PREFIX}{row.name}" for row in tls_options.ROWS}
"""The registry's options of TLS: its page says once that they are those of the brokers with another prefix."""
NEEDED = {"exactly once": "deliveryGuarantee", "several clusters": "clusters"}
"""What all options of a section need: its page says so once."""

DOCUMENTS: dict[str, tuple[str, ...]] = {
    "options.md": tuple(SECTIONS),
    "options-registry.md": ("registry",),
    "options-security.md": tuple(SECURITY_SECTIONS),
}
"""The tables of each page below docs/."""


def markdown_table(section: str) -> str:
    """The options of a section as a table. It has no column whose cells are all the same."""
    options = [row for row in (SECTIONS | PAGES)[section] if row.name not in LIKE_THE_BROKERS]
    rows = [_cells(option) for option in options]
    shown = [title for title in rows[0] if len({row[title] for row in rows}) > 1]
    lines = [shown, *([row[title] for title in shown] for row in rows)]
    first, *others = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, "|---" * len(shown) + "|", *others])


def _cells(option: Option) -> dict[str, str]:
    default = option.implied if option.default is None else _default(option)
    shown = default and f"`{default}`{_meant(option, default)}"
    used_by = "both" if len(option.used_by) > 1 else {"source": "reads", "sink": "writes"}[option.used_by[0]]
    if used_by == "reads" and "batch" in option.no_effect_in:
        used_by = "streams"
    return {
        "option": f"`{option.name}`"
        + "".join(f" (alias `{alias}`)" for alias in option.aliases)
        + (" (secret)" if option.type is SECRET else ""),
        "for": used_by,
        "default": shown,
        "meaning": meaning(option),
    }


def meaning(option: Option) -> str:
    """The text of an option, with the options that it needs."""
    needed = next((name for title, name in NEEDED.items() if option in SECTIONS[title]), "")
    needs = [_wanted(rule) for rule in option.only if not rule.mine and rule.at_most is None and rule.name != needed]
    only = f"Only with {' and '.join(needs)}. " if needs else ""
    differs = f" Java's default is {option.differs}." if option.differs else ""
    return f"{only}{option.doc}{differs}"


def _default(option: Option) -> str:
    """The default, as a user would write it: `15m`, `64m`."""
    text = as_text(option.default)
    units: dict[object, tuple[tuple[str, int], ...]] = {
        DURATION: (("h", 3_600_000), ("m", 60_000), ("s", 1_000)),
        SIZE: (("g", 1 << 30), ("m", 1 << 20)),
    }
    for unit, factor in units.get(option.type, ()):
        if isinstance(option.default, int) and option.default and option.default % factor == 0:
            return f"{option.default // factor}{unit}"
    return text


_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_TIMES = (("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


def _meant(option: Option, default: str) -> str:
    """Say what a bare number of bytes or milliseconds is in larger units: ` (50 MiB)`, ` (10 minutes)`.

    Numbers that may be references to secrets are texts: there the name has the unit.
    """
    number = int(default) if default.isdecimal() else 0
    is_time = option.type is MILLISECONDS or option.name.endswith(".ms")
    units = _SIZES if option.type is BYTES else _TIMES if is_time else ()
    for unit, factor in units:
        if number and number % factor == 0:
            plural = "s" if is_time and number > factor else ""
            return f" ({number // factor} {unit}{plural})"
    return ""


def _wanted(rule: Other) -> str:
    if not rule.values:
        return f"`{rule.name}`"
    first, *others = map(as_text, rule.values)
    return any_of([f"`{rule.name}={first}`", *(f"`{value}`" for value in others)])
