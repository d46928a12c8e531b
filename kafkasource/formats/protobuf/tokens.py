"""Splits `.proto` text into tokens, and reads its literals."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkasource.errors import SchemaError

MOST_TEXT_CHARACTERS = 4 << 20

NAME, NUMBER, STRING, SYMBOL, END = "name", "number", "string", "symbol", "end"

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[-+;:=,.(){}\[\]<>/])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SINGLE = {
    **dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True)),
    **{each: each for each in b"\\'\"?"},
}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int  # the first is 1


def tokens_of(text: str) -> list[Token]:
    """All tokens, then END. White space and comments are none."""
    if len(text) > MOST_TEXT_CHARACTERS:
        raise SchemaError(
            f"line 1: the schema's text has {len(text)} characters; at most {MOST_TEXT_CHARACTERS} are read"
        )
    found: list[Token] = []
    pos, line = 0, 1
    if text.startswith("\ufeff"):
        pos = 1
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise SchemaError(f"line {line}: {text[pos : pos + 20]!r} begins no word, number or text of a .proto file")
        kind = match.lastgroup
        if kind is not None and kind != "space":
            found.append(Token(kind, match.group(), line))
        line += match.group().count("\n")
        pos = match.end()
    found.append(Token(END, "", line))
    return found


def bytes_of(literal: str, place: str) -> bytes:
    """The bytes between the quotes, with escapes resolved; text is UTF-8."""

    def resolved(match: re.Match[bytes]) -> bytes:
        hexadecimal, octal, short, long, single = match.groups()
        if octal is not None and int(octal, 8) < 256:
            return bytes([int(octal, 8)])
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        if short is not None or long is not None:
            code = int(short or long, 16)
            if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                return chr(code).encode()
        elif single is not None and single[0] in _SINGLE:
            return bytes([_SINGLE[single[0]]])
        raise SchemaError(f"{place}: {match.group().decode(errors='replace')} is not an escape of a .proto file")

    return _ESCAPE.sub(resolved, literal.encode(errors="replace"))


def integer_of(text: str) -> int | None:
    """Decimal, 0x hexadecimal, 0 octal; None: no integer."""
    try:
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        if len(text) > 30 or not text.isdigit():
            return None
        return int(text, 8 if text[0] == "0" else 10)
    except ValueError:
        return None
