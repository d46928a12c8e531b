"""The rows of TLS, for the table of options. Their own tables are in the room `security`, which reads their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasource.options.option import BOTH, Option, Refused
from kafkasource.options.types import SECRET, TEXT
from kafkasource.secrets import Secret
from kafkasource.security import tls_options
from kafkasource.security.config import SecurityConfig

SECURITY_OPTIONS = tuple(
    Option(
        f"kafka.{row.name}",
        SECRET if row.secret else TEXT,
        None,
        BOTH,
        row.doc,
        aliases=(f"kafka.{row.alias}",) if row.alias else (),
    )
    for row in tls_options.ROWS
)

SECURITY_REFUSED = tuple(Refused(f"kafka.{name}", why) for name, why in tls_options.REFUSED.items())

_PROTOCOL = "kafka.security.protocol"
_NAMES = (_PROTOCOL, *(option.name for option in SECURITY_OPTIONS))


def security_of(options: Mapping[str, Any]) -> SecurityConfig:
    """From parsed options (typed values by canonical name). Raises OptionError for those that contradict each other."""
    given = {name.removeprefix("kafka."): options[name] for name in _NAMES if options.get(name) is not None}
    return SecurityConfig.of({name: v.reveal() if isinstance(v, Secret) else v for name, v in given.items()})
