"""The rows of TLS and SASL, for the table of options. Their tables are in `security`, which reads their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkasource.kafka.security.option import TEXT, Option, RefusedOption, with_prefix
from kafkasource.kafka.security.sasl import options as sasl_options
from kafkasource.kafka.security.tls import options as tls_options


def _rows(table: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(with_prefix(row, "kafka.") for row in table)


REFERENCE_OPTIONS = (
    Option(
        "config.providers.env.param.allowlist.pattern",
        TEXT,
        "A regular expression: the environment variables that `${env:NAME}` may name. Without it: all.",
    ),
    Option(
        "config.providers.file.param.allowed.paths",
        TEXT,
        "Files and folders, separated by commas, that `${file:/path:key}` may name. Without it: all.",
    ),
    Option(
        "config.providers.dir.param.allowed.paths",
        TEXT,
        "Folders, separated by commas, that `${dir:/folder:file}` may name. Without it: all.",
    ),
)

SECURITY_SECTIONS = {
    "tls": _rows(tls_options.ROWS),
    "sasl": _rows(sasl_options.ROWS),
    "providers": _rows(REFERENCE_OPTIONS),
}
SECURITY_OPTIONS = tuple(row for rows in SECURITY_SECTIONS.values() for row in rows)

SECURITY_REFUSED = tuple(
    RefusedOption(f"kafka.{name}", why) for name, why in {**sasl_options.REFUSED, **tls_options.REFUSED}.items()
)

SECURITY_NAMES = ("kafka.security.protocol", *(option.name for option in SECURITY_OPTIONS))


def vendors_idle_time(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the idle time that `kafka.auth` implies. `SecurityConfig` handles its other values."""
    name = "connections.max.idle.ms"
    defaults = sasl_options.vendor_defaults({"auth": options.get("kafka.auth") or ""})
    return {f"kafka.{name}": defaults[name]} if name in defaults else {}
