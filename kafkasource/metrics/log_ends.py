"""The ends of logs in a key of a streaming offset: how Spark 4.0 and 4.1 carry them to the user's process.

From Spark 4.2 on a source reports them beside its offset (`reportLatestOffset`), and the key is not written.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from kafkasource.types import TopicPartition

LOG_ENDS = "@logends"
UNREADABLE = (ValueError, TypeError, SyntaxError, AttributeError, RecursionError, MemoryError)  # of `parsed` and around


def parsed(document: Any) -> Any:
    """An offset as progress has it: JSON text, in some versions parsed already. pyspark 4.0 shows the text of a Python
    dict instead. Raises ValueError and the like for other texts."""
    if not isinstance(document, str):
        return document
    try:
        return json.loads(document)
    except ValueError:
        return ast.literal_eval(document)


def log_ends_to_text(ends: Mapping[TopicPartition, int]) -> str:
    """One text of the ends of the logs that a micro-batch does not read to their end, as they were when it was planned:

        @logends;t/0=1200;u/3=7

    On Spark 4.0 and 4.1 a source cannot report this beside its offset, so the reader process puts it into the offset,
    as a key with an empty value.
    """
    return ";".join((LOG_ENDS, *(f"{tp.topic}/{tp.partition}={end}" for tp, end in sorted(ends.items()))))


def is_log_ends(key: str) -> bool:
    return key.startswith(LOG_ENDS)


def without_log_ends(document: Mapping[str, Any]) -> dict[str, Any]:
    """An offset's JSON without that key."""
    return {key: value for key, value in document.items() if not is_log_ends(key)}


def log_ends_in(document: Any) -> dict[TopicPartition, int]:
    """The inverse of `log_ends_to_text`. Empty for an offset without the key, and for one that it cannot read."""
    try:
        ends = {}
        for entry in (part for key in parsed(document) if is_log_ends(key) for part in key.split(";")[1:]):
            place, _, end = entry.partition("=")
            topic, _, partition = place.partition("/")
            ends[TopicPartition(topic, int(partition))] = int(end)
        return ends
    except UNREADABLE:
        return {}
