"""Limits what reading a schema's text costs: bytes, steps, and the kinds of errors. Pure.

The cost of a text of n bytes has a bound that grows with n. So a schema is refused for one of three reasons: the names
from its root to a type have more than MOST_PLACE characters together (each type below keeps that text); its JSON has
more than MOST_JSON_VALUES values (each is a Python object); reading it takes more than MOST_STEPS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from kafkasource.errors import KafkaSourceError, SchemaError

MOST_PLACE = 2_000
MOST_STEPS = 250_000
MOST_JSON_VALUES = 500_000

# None of these can fail behind a beginning that it has found, so that each goes over a text once.
_ESCAPE = re.compile(r'\\["\\]')
_STRING = re.compile(r'"[^"]*"?')  # of a text without escapes
_STRING_OR_COMMENT = re.compile(r'"[^"]*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


class TooCostly(SchemaError):
    """A schema that takes more steps than MOST_STEPS."""


class Steps:
    """Counts the steps of reading one schema."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def take(self, steps: int, place: str) -> None:
        """Raise TooCostly where these steps are too many."""
        self._left -= steps
        if self._left < 0:
            raise TooCostly(f"{place[:300]}: the schema takes more than {MOST_STEPS} steps to read")


def check_place(place: str) -> None:
    """Raise SchemaError where a place has more than MOST_PLACE characters."""
    if len(place) > MOST_PLACE:
        raise SchemaError(
            f"{place[:300]}...: the names from the schema's root to this place have {len(place)} characters; at most "
            f"{MOST_PLACE} are read"
        )


def without_comments(text: str) -> str:
    """Replace the comments of JSON, `// ...` and `/* ... */`, by blanks; lines keep their numbers. Raises ValueError
    for a comment that nothing ends."""
    if "//" not in text and "/*" not in text:
        return text
    pieces, end = [], 0
    for found in _STRING_OR_COMMENT.finditer(_ESCAPE.sub("..", text)):
        comment = found.group()
        if comment.startswith('"'):
            continue
        if comment.startswith("/*") and (len(comment) < len("/**/") or not comment.endswith("*/")):
            raise ValueError("nothing ends a comment that begins with /*")
        pieces += [text[end : found.start()], "\n" * comment.count("\n") or " "]
        end = found.end()
    return "".join([*pieces, text[end:]])


def bounded_json(text: str, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Read JSON as `json.loads` does, and pass over a byte order mark. Raises ValueError for what is not JSON, nests
    too deeply, or has more than MOST_JSON_VALUES."""
    text = text.removeprefix("\ufeff")
    if len(text) > MOST_JSON_VALUES:  # else there cannot be as many
        outside = _STRING.sub("", _ESCAPE.sub("", text))
        if sum(map(outside.count, ",[{")) > MOST_JSON_VALUES:
            raise ValueError(f"it has more than {MOST_JSON_VALUES} values")
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def shown(given: Any, levels: int = 2) -> str:
    """A value of JSON in a message: the beginning of it, whatever its size."""
    if isinstance(given, str):
        return repr(given) if len(given) <= 60 else f"{given[:60]!r}..."
    if isinstance(given, dict | list) and given:
        brackets = "{}" if isinstance(given, dict) else "[]"
        if not levels:
            return f"{brackets[0]}...{brackets[1]}"
        some = list(islice(given.items() if isinstance(given, dict) else enumerate(given), 4))
        parts = [
            f"{shown(key)}: {shown(value, levels - 1)}" if isinstance(given, dict) else shown(value, levels - 1)
            for key, value in some
        ]
        return f"{brackets[0]}{', '.join(parts)}{', ...' if len(given) > len(some) else ''}{brackets[1]}"
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:60]}..."


@contextmanager
def reading_a_schema() -> Iterator[None]:
    """Make an error of our own of whatever a schema's text makes this block raise.

    Others have written the text. On the writers' side it makes their records bad, on the reader's side `load()` fails.
    """
    try:
        yield
    except KafkaSourceError:
        raise
    except RecursionError:
        raise SchemaError("$: the schema nests too deeply to be read") from None
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, MemoryError) as error:
        raise SchemaError(f"$: the schema cannot be used: {type(error).__name__}: {str(error)[:200]}") from error
