"""`sasl.jaas.config`, as Kafka's `JaasConfig` reads it with Java's StreamTokenizer.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

One login module, a flag, options, a semicolon. A value that is more than a word stands in quotes: words have letters,
digits, `_`, `-`, `$` and `.`, and do not begin with a digit. In quotes `\\"` and `\\\\` stand for the characters, `\\n`
and `\\101` for others. Comments go from `/` to the end of the line, or between `/*` and `*/`.

An error names the place, counted in characters from 1, never the text: it may be a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkasource.errors import OptionError
from kafkasource.kafka.security.secrets import Secret

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_NUMBER_START = re.compile(r"-?[.0-9]")
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]*")
# Letters, `$`, `_`, `-` and all from U+00A0 on, said by what they are not: Python takes 13 ms to compile the long
# range, in each process that Spark starts.
_WORD = re.compile(r"[^\x00-#%-,.-@\[-^`{-\x9f][^\x00-#%-,/:-@\[-^`{-\x9f]*")
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MOST_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class LoginModule:
    name: str  # the Java class
    options: dict[str, Secret]  # any of them may be secret

    def text(self, name: str) -> str | None:
        """Return an option that is not a secret as text, or None."""
        value = self.options.get(name)
        return None if value is None else value.reveal()


def parse(text: str) -> LoginModule:
    """The one login module of the text. Raises OptionError."""
    entries, tokens = [], _Tokens(text)
    while tokens.next().kind != _END:
        entries.append(_entry(tokens))
    if len(entries) != 1:
        raise OptionError(f"sasl.jaas.config names {len(entries)} login modules; a client has exactly one")
    return entries[0]


def _entry(tokens: _Tokens) -> LoginModule:
    """Read a module, from the token that is current up to the semicolon."""
    name = tokens.current.text
    if name is None:
        raise tokens.error("the class of a login module")
    flag = tokens.next().text
    if flag is None or flag.upper() not in _FLAGS:
        raise tokens.error("a flag, as `required`,")
    options: dict[str, Secret] = {}
    while tokens.next().kind not in (_END, ";"):
        key = tokens.current.text
        if key is None:
            raise tokens.error("the name of an option")
        if tokens.next().kind != "=":
            raise tokens.error("`=`")
        value = tokens.next().text
        if value is None:
            raise tokens.error("a value (in quotes, unless it is a word of letters)")
        options[key] = Secret(value)
    if tokens.current.kind != ";":
        raise tokens.error("a semicolon")
    return LoginModule(name, options)


_END, _WORD_KIND, _NUMBER_KIND, _QUOTED = "end", "word", "number", "quoted"


@dataclass(frozen=True, repr=False)
class _Token:
    kind: str  # a kind from above, or a character that stands for itself
    at: int  # where it begins
    text: str | None = None  # of a word or of quoted text: Java's `sval`


class _Tokens:
    """Java's StreamTokenizer with the settings of JaasConfig, quirks included."""

    def __init__(self, text: str) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise OptionError(f"sasl.jaas.config is longer than {_MOST_CHARACTERS} characters")
        self._text = text
        self._at = 0
        self.current = _Token(_END, 0)

    def next(self) -> _Token:
        """Go on to the next token."""
        self._skip_blanks_and_comments()
        start = self._at
        character = self._text[start : start + 1]
        if not character:
            self.current = _Token(_END, start)
        elif character in "\"'":
            self.current = _Token(_QUOTED, start, self._quoted(character))
        elif _NUMBER_START.match(self._text, start) and not (character == "-" and not self._is_number(start)):
            match = _NUMBER.match(self._text, start)
            assert match is not None
            self._at = match.end()
            self.current = _Token(_NUMBER_KIND, start)
        elif character != "-" and (word := _WORD.match(self._text, start)):
            self._at = word.end()
            self.current = _Token(_WORD_KIND, start, word[0])
        else:
            self._at += 1
            self.current = _Token(character, start)
        return self.current

    def _is_number(self, start: int) -> bool:
        following = self._text[start + 1 : start + 2]
        return following != "" and following in ".0123456789"

    def error(self, wanted: str) -> OptionError:
        seen = "the text ends" if self.current.kind == _END else "something else stands"
        return OptionError(
            f"sasl.jaas.config: {wanted} is missing at character {self.current.at + 1} of {len(self._text)}, where "
            f'{seen}. Quote values, write \\" and \\\\ inside them, end with a semicolon; or use kafka.sasl.username '
            "and kafka.sasl.password"
        )

    def _skip_blanks_and_comments(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] <= " ":
                self._at += 1
            elif text.startswith("/*", self._at):
                end = text.find("*/", self._at + 2)
                self._at = len(text) if end < 0 else end + 2
            elif text[self._at] == "/":
                self._at += 2  # Java has read the next character already, even where that is the line's end
                self._skip_line()
            else:
                return

    def _skip_line(self) -> None:
        while self._at < len(self._text) and self._text[self._at] not in "\r\n":
            self._at += 1

    def _quoted(self, quote: str) -> str:
        """Read a quoted text. It also ends at the end of the line."""
        text, characters = self._text, []
        self._at += 1
        while self._at < len(text) and text[self._at] not in (quote, "\n", "\r"):
            if text[self._at] == "\\":
                self._at += 1
                characters.append(self._escaped())
            else:
                characters.append(text[self._at])
                self._at += 1
        if text[self._at : self._at + 1] == quote:
            self._at += 1
        return "".join(characters)

    def _escaped(self) -> str:
        octal = _OCTAL.match(self._text, self._at)
        if octal is not None:
            self._at = octal.end()
            return chr(int(octal[0], 8))
        character = self._text[self._at : self._at + 1]
        self._at += 1
        return _CONTROLS.get(character, character)
