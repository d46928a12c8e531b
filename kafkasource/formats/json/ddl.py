"""Spark's DDL of a schema to an Arrow type: `id BIGINT NOT NULL, tags ARRAY<STRING>, at: TIMESTAMP`."""

from __future__ import annotations

import re

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.json.spark_types import decimal_type, plain_type

MOST_DEPTH = 100

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)*)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|(\S))", re.DOTALL)
_EXAMPLE = "such as `id BIGINT NOT NULL, tags ARRAY<STRING>`"


def type_of_ddl(text: str) -> pa.StructType:
    """SchemaError says what was found where something else was expected."""
    parser = _Parser(text)
    found = parser.fields("", 0)
    parser.expect("")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        stripped = text.rstrip()
        self._tokens: list[tuple[str, str]] = []  # (kind, text): a name in quotes, a text, a word, a sign
        pos = 0
        while pos < len(stripped):
            found = _TOKEN.match(stripped, pos)
            assert found is not None  # the last branch takes any sign
            quoted, literal, word, sign = found.groups()
            if quoted is not None:
                self._tokens.append(("name", quoted.replace("``", "`")))
            else:
                self._tokens.append(("text", literal) if literal else ("word", word) if word else ("sign", sign))
            pos = found.end()
        self._next = 0

    def fields(self, end: str, depth: int) -> pa.StructType:
        """The fields up to the sign `end`, which stays."""
        found: list[pa.Field] = []
        while self._seen() != end:
            if found:
                self.expect(",")
            found.append(self._field(depth))
        return pa.struct(found)

    def expect(self, sign: str) -> None:
        if self._seen() != sign:
            wanted = repr(sign) if sign else "the end"
            raise SchemaError(f"$: in Spark's DDL, expected {wanted}, found {self._seen() or 'the end'!r}")
        self._next += 1

    def _field(self, depth: int) -> pa.Field:
        kind, name = self._take()
        if kind not in ("word", "name") or not name:
            raise SchemaError(
                f"$: in Spark's DDL, expected the name of a field, found {name or 'the end'!r}; {_EXAMPLE}"
            )
        if self._seen() == ":":
            self._next += 1
        found = self._type(depth)
        nullable = True
        if self._word() == "not":
            self._next += 1
            if self._word() != "null":
                raise SchemaError(f"$: in Spark's DDL, expected NULL after NOT, found {self._seen() or 'the end'!r}")
            self._next += 1
            nullable = False
        if self._word() == "comment":
            self._next += 1
            if self._take()[0] != "text":
                raise SchemaError("$: in Spark's DDL, expected a text in quotes after COMMENT")
        return pa.field(name, found, nullable)

    def _type(self, depth: int) -> pa.DataType:
        if depth > MOST_DEPTH:
            raise SchemaError(f"$: in Spark's DDL, more than {MOST_DEPTH} types within each other")
        kind, word = self._take()
        if kind != "word":
            raise SchemaError(f"$: in Spark's DDL, expected a type, found {word or 'the end'!r}; {_EXAMPLE}")
        name = word.lower()
        if name == "struct":
            self.expect("<")
            found: pa.DataType = self.fields(">", depth + 1)
            self.expect(">")
            return found
        if name == "array":
            self.expect("<")
            item = self._type(depth + 1)
            self.expect(">")
            return pa.list_(pa.field("element", item))
        if name == "map":
            self.expect("<")
            key = self._type(depth + 1)
            self.expect(",")
            value = self._type(depth + 1)
            self.expect(">")
            return pa.map_(key, pa.field("value", value))
        if name in ("decimal", "dec", "numeric"):
            return decimal_type(*self._numbers(), place="$")
        return plain_type(name, "$")

    def _numbers(self) -> tuple[int, int]:
        """Precision and scale, (10, 0) where they are not said."""
        if self._seen() != "(":
            return 10, 0
        self._next += 1
        found = [self._number()]
        if self._seen() == ",":
            self._next += 1
            found.append(self._number())
        self.expect(")")
        return found[0], found[1] if len(found) > 1 else 0

    def _number(self) -> int:
        _, word = self._take()
        if not (word.isascii() and word.isdigit()) or len(word) > 4:
            raise SchemaError(f"$: in Spark's DDL, expected a number, found {word or 'the end'!r}")
        return int(word)

    def _take(self) -> tuple[str, str]:
        found = self._tokens[self._next] if self._next < len(self._tokens) else ("", "")
        self._next += 1
        return found

    def _seen(self) -> str:
        """The next sign or word; empty at the end."""
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _word(self) -> str:
        kind, text = self._tokens[self._next] if self._next < len(self._tokens) else ("", "")
        return text.lower() if kind == "word" else ""
