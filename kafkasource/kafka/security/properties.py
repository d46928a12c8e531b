"""Files of Java properties: `client.properties`, files of secrets, MirrorMaker's. As java.util.Properties reads them.

key = value          the key ends at `=`, `:` or blank; blanks around it do not count, blanks behind the value do
# or !               a comment, up to the end of the line
\\ at a line's end    the next line goes on, without its leading blanks
\\t \\n \\r \\f \\u00e9  characters; any other character behind a backslash stands for itself
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafkasource.errors import OptionError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """The values by key; of a key that occurs twice the last. Raises OptionError, which names the line, for a `\\u`
    without four hexadecimal digits: nothing else can be wrong with such a file."""
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # a logical line does not end in a single backslash
        try:
            key, value = map(_unescaped, match.groups())
        except ValueError:
            raise OptionError(f"line {number}: \\u needs four hexadecimal digits after it") from None
        values[key] = value
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each with the number of its first line, from 1: no comments, no blank lines, continued lines as one."""
    whole, first = "", 0
    goes_on = False
    lines = _LINE_END.split(text)
    for number, raw in enumerate(lines if lines[-1] else lines[:-1], 1):
        line = raw.lstrip(_BLANKS)
        if not whole:
            if not line or line[0] in "#!":
                goes_on = False
                continue
            first = number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        whole += line[:-1] if goes_on else line
        if not goes_on:
            yield first, whole
            whole = ""
    if goes_on:  # the file ends so; Java drops the backslash
        yield first, whole


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # Java's pairs as one character


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] == "u":
        if not re.fullmatch(r"u[0-9A-Fa-f]{4}", escape):
            raise ValueError
        return chr(int(escape[1:], 16))
    return _CHARACTERS.get(escape, escape)
