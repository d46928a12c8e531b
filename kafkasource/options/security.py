"""The rows of TLS and SASL, for the table of options. Their tables are in `security`, which reads their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafkasource.kafka.security.sasl import options as sasl_options
from kafkasource.kafka.security.security_option import SecurityOption
from kafkasource.kafka.security.tls import options as tls_options
from kafkasource.options.option import BOTH, Option, Refused
from kafkasource.options.types import SECRET, TEXT


def option_of(row: SecurityOption, prefix: str, *, per_cluster: bool = True) -> Option:
    """As a row of the table of options. Its value stays a text, which others read."""
    return Option(
        f"{prefix}{row.name}",
        SECRET if row.secret else replace(TEXT, name=row.kind),
        None,
        BOTH,
        row.doc + (f" Default: `{row.default}`." if row.default else ""),
        aliases=(f"{prefix}{row.alias}",) if row.alias else (),
        differs=row.differs,
        per_cluster=per_cluster,
    )


def _rows(table: Iterable[SecurityOption]) -> tuple[Option, ...]:
    return tuple(option_of(row, "kafka.") for row in table)


REFERENCE_OPTIONS = (
    SecurityOption(
        "config.providers.env.param.allowlist.pattern",
        "A regular expression: the environment variables that `${env:NAME}` may name. Without it: all.",
    ),
    SecurityOption(
        "config.providers.file.param.allowed.paths",
        "Files and folders, separated by commas, that `${file:/path:key}` may name. Without it: all.",
    ),
    SecurityOption(
        "config.providers.dir.param.allowed.paths",
        "Folders, separated by commas, that `${dir:/folder:file}` may name. Without it: all.",
    ),
)

SECURITY_OPTIONS = (*_rows(tls_options.ROWS), *_rows(sasl_options.ROWS), *_rows(REFERENCE_OPTIONS))

SECURITY_REFUSED = tuple(
    Refused(f"kafka.{name}", why) for name, why in {**sasl_options.REFUSED, **tls_options.REFUSED}.items()
)

SECURITY_NAMES = ("kafka.security.protocol", *(option.name for option in SECURITY_OPTIONS))


def vendors_idle_time(options: Mapping[str, Any]) -> dict[str, str]:
    """What `kafka.auth` says of an option that is not one of security; `SecurityConfig` has the others."""
    name = "connections.max.idle.ms"
    defaults = sasl_options.vendor_defaults({"auth": options.get("kafka.auth") or ""})
    return {f"kafka.{name}": defaults[name]} if name in defaults else {}
