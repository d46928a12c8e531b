"""The name and the options that `kafkasource.register` gives to a format of the user's own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from kafkasource.errors import OptionError
from kafkasource.options.connect import secrets_as_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # which SQL's USING takes without quotes
_TAKEN = re.compile(  # ours, and Spark's: USING text would be a table of files
    "pykafka|kafka|avro|binaryfile|console|csv|delta|hive|image|jdbc|json|libsvm|memory|noop|orc|parquet|rate|socket|"
    "statestore|text|xml",
    re.IGNORECASE,
)


def registered(name: str | None, written: Mapping[str, object] | None) -> tuple[str, dict[str, str]]:
    """The name, and the options in Spark's spelling of values. Raises OptionError."""
    if not name or not written:
        raise OptionError('register() takes a name and options together: register(spark, name="orders", options={...})')
    if not _NAME.fullmatch(name) or _TAKEN.fullmatch(name):
        raise OptionError(f"register(name={name!r}): give a name of your own, of letters, digits and _")
    odd = [key for key, value in written.items() if isinstance(value, Collection | None) and not isinstance(value, str)]
    if odd:
        raise OptionError(f"register(options=...): {', '.join(map(repr, odd))}: give a text, a number or a boolean")
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in written.items()}
    if shown := secrets_as_text(texts):
        raise OptionError(
            f"register(options=...): {', '.join(map(repr, shown))} holds a secret, which Spark would keep with the "
            "session. Give a reference such as ${env:NAME} or ${file:/path:key} (docs/secrets.md)"
        )
    return name, texts
