"""Translates Java regular expressions: `subscribePattern` must select the same topics as in the JVM connector.

Python's `re` agrees with `java.util.regex` on nearly everything that people write for topic names. This module respells
what Python spells differently. It refuses, by name, what Python does not know or would silently understand otherwise
(class intersections, nested classes).
"""

from __future__ import annotations

import re
from functools import lru_cache

# Java's POSIX and java.lang classes over ASCII: a topic's name has no other characters.
_PROPERTIES = {
    "lower": "a-z",
    "upper": "A-Z",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9a-fA-F",
    "space": r"\t\n\x0b\f\r ",
    "blank": r" \t",
    "ascii": r"\x00-\x7f",
    "l": "a-zA-Z",
    "lu": "A-Z",
    "ll": "a-z",
    "n": "0-9",
    "nd": "0-9",
    "isalphabetic": "a-zA-Z",
    "isdigit": "0-9",
    "islowercase": "a-z",
    "isuppercase": "A-Z",
}
_INLINE_FLAGS = re.compile(r"\(\?([a-zA-Z]+)(-[a-zA-Z]+)?\)")
_OCTAL = re.compile("[0-3][0-7]{2}|[0-7]{1,2}")
_PYTHONS_OCTAL = re.compile("[0-7]{3}")  # behind a backslash


@lru_cache(maxsize=64)
def compile_java(pattern: str) -> re.Pattern[str]:
    """The Python equivalent of a Java pattern, to be *searched*. Raises ValueError naming what cannot be expressed.

    Results are cached, because callers ask about each topic of a cluster at each micro-batch.
    """
    flags, start = re.ASCII, 0
    if leading := _INLINE_FLAGS.match(pattern):
        flags |= _flags(leading)
        start = leading.end()
    try:
        return re.compile(_respell(pattern, start), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _flags(leading: re.Match[str]) -> int:
    known = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "u": 0, "d": 0}
    if leading[2] or not set(leading[1]) <= set(known):
        raise ValueError(f"flags {leading[0]} are not supported")
    flags = 0
    for letter in leading[1]:
        flags |= known[letter]
    return flags


def _respell(pattern: str, pos: int) -> str:
    """Walk the pattern once; `in_class`: whether pos is between brackets."""
    out: list[str] = []
    in_class = False
    while pos < len(pattern):
        char = pattern[pos]
        if char == "\\":
            text, pos = _escape(pattern, pos, in_class)
            out.append(text)
            continue
        if in_class:
            if char == "[":
                raise ValueError("nested character classes ([a[b]]) are not supported")
            if pattern.startswith("&&", pos):
                raise ValueError("intersections of character classes (&&) are not supported")
            in_class = char != "]"
        elif char == "[":
            in_class = True
            opening = "[^" if pattern.startswith("[^", pos) else "["
            if pattern.startswith("]", pos + len(opening)):
                raise ValueError("a character class must not start with ']': write \\]")
            out.append(opening)
            pos += len(opening)
            continue
        elif pattern.startswith("(?<", pos) and pattern[pos + 3 : pos + 4] not in ("=", "!"):
            out.append("(?P<")
            pos += 3
            continue
        elif pattern.startswith("(?P", pos):
            raise ValueError("(?P is not Java's: write (?<name>...)")
        elif _INLINE_FLAGS.match(pattern, pos):
            raise ValueError("flags are supported at the start of the pattern only")
        out.append(char)
        pos += 1
    return "".join(out)


def _escape(pattern: str, pos: int, in_class: bool) -> tuple[str, int]:
    """The escape that starts with the backslash at pos, respelt, and its end."""
    letter = pattern[pos + 1 : pos + 2]
    if letter == "Q":
        end = pattern.find("\\E", pos + 2)
        quoted = pattern[pos + 2 :] if end < 0 else pattern[pos + 2 : end]
        return re.escape(quoted), len(pattern) if end < 0 else end + 2
    if letter in ("p", "P"):
        match = re.compile(r"\{(?:Is)?(\w+)\}|(\w)").match(pattern, pos + 2)
        name = (match[1] or match[2]).lower() if match else ""
        members = _PROPERTIES.get(name) or _PROPERTIES.get(f"is{name}")
        if match is None or members is None or (in_class and letter == "P"):
            raise ValueError(f"character class {pattern[pos : pos + 12]!r} is not supported")
        text = members if in_class else f"[{'^' if letter == 'P' else ''}{members}]"
        return text, match.end()
    if letter == "k":
        match = re.compile(r"<(\w+)>").match(pattern, pos + 2)
        if match is None:
            raise ValueError("\\k must be followed by <name>")
        return f"(?P={match[1]})", match.end()
    if letter == "0":
        match = _OCTAL.match(pattern, pos + 2)
        if match is None:
            raise ValueError("\\0 needs octal digits after it")
        return f"\\x{int(match[0], 8):02x}", match.end()  # Python's \0 takes two digits more, where Java's takes three
    if "1" <= letter <= "9" and (in_class or _PYTHONS_OCTAL.match(pattern, pos + 1)):
        raise ValueError(f"\\{letter} is the text of a group here: write \\0 before octal digits")
    if letter == "z":
        return r"\Z", pos + 2
    if letter == "h":
        return (r" \t" if in_class else r"[ \t]"), pos + 2
    if letter in ("G", "X", "R", "N", "H", "V"):
        raise ValueError(f"\\{letter} is not supported")
    return pattern[pos : pos + 2], pos + 2
