"""`.proto` text, proto2 and proto3, to its declarations.

What does not change the bytes of a record is passed over, though its brackets and ends must fit: options, services,
reserved names, extensions. An error begins with the line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.descriptors import (
    GROUP,
    MAP_KEYS,
    MESSAGE,
    PROTO2,
    PROTO3,
    SCALARS,
    Default,
    EnumDescriptor,
    FieldDescriptor,
    File,
    MessageDescriptor,
)
from kafkasource.formats.protobuf.literals import default_of
from kafkasource.formats.protobuf.tokens import END, NAME, NUMBER, STRING, Token, bytes_of, integer_of, tokens_of

MOST_DEPTH = 32  # messages within messages, as protoc has it
_LABELS = ("optional", "required", "repeated")
_MAP_ENTRY = ["option", "map_entry", "=", "true", ";"]
_OPEN, _CLOSE = "{[(", "}])"


def parse_proto(text: str) -> File:
    """Raises SchemaError."""
    return _Parser(tokens_of(text)).file()


@dataclass
class _Body:
    """A message while it is read."""

    name: str
    fields: list[FieldDescriptor] = field(default_factory=list)
    messages: list[MessageDescriptor] = field(default_factory=list)
    enums: list[EnumDescriptor] = field(default_factory=list)
    is_map_entry: bool = False

    def done(self) -> MessageDescriptor:
        return MessageDescriptor(
            self.name, tuple(self.fields), tuple(self.messages), tuple(self.enums), self.is_map_entry
        )


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._syntax = PROTO2
        self._depth = 0

    # Tokens.

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    @property
    def _place(self) -> str:
        return f"line {self._token.line}"

    def _fail(self, wanted: str) -> NoReturn:
        found = repr(self._token.text[:40]) if self._token.kind != END else "the end of the text"
        raise SchemaError(f"{self._place}: expected {wanted}, found {found}")

    def _next(self) -> str:
        text = self._token.text
        if self._token.kind == END:
            self._fail("more text")
        self._at += 1
        return text

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind != STRING

    def _take(self, text: str) -> bool:
        """Whether it is next; then it is read."""
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._fail(repr(text))

    def _name(self) -> str:
        if self._token.kind != NAME:
            self._fail("a name")
        return self._next()

    def _full_name(self) -> str:
        name = "." if self._take(".") else ""
        name += self._name()
        while self._take("."):
            name += "." + self._name()
        return name

    def _string(self) -> bytes:
        """Join one literal, or several side by side."""
        if self._token.kind != STRING:
            self._fail("text in quotes")
        found = b""
        while self._token.kind == STRING:
            place = self._place
            found += bytes_of(self._next()[1:-1], place)
        return found

    def _text(self) -> str:
        place = self._place
        try:
            return self._string().decode()
        except UnicodeDecodeError:
            raise SchemaError(f"{place}: the text is not UTF-8") from None

    def _integer(self) -> int:
        sign = -1 if self._take("-") else 1
        number = integer_of(self._token.text) if self._token.kind == NUMBER else None
        if number is None:
            self._fail("an integer")
        self._at += 1
        return sign * number

    # Declarations.

    def file(self) -> File:
        if self._take("syntax"):
            self._expect("=")
            syntax = self._text()
            if syntax not in (PROTO2, PROTO3):
                raise SchemaError(f"{self._place}: the syntax is {syntax!r}; {PROTO2} and {PROTO3} are read")
            self._syntax = syntax
            self._expect(";")
        elif self._is("edition"):
            raise SchemaError(f"{self._place}: the file has an edition; files of {PROTO2} and {PROTO3} are read")
        package, imports, public, body = "", [], [], _Body("")
        while self._token.kind != END:
            if self._take(";"):
                continue
            if self._take("import"):
                is_public = self._take("public")
                if not is_public and not self._take("weak"):
                    self._take("option")
                imports.append(self._text())
                public += imports[-1:] if is_public else []
                self._expect(";")
            elif self._take("package"):
                if package:
                    raise SchemaError(f"{self._place}: the file has a second package")
                package = self._full_name()
                self._expect(";")
            elif not self._type(body):
                if not (self._is("option") or self._is("service")):
                    self._fail("message, enum, import, package, option, extend or service")
                self._other()
        return File(package, self._syntax, tuple(imports), tuple(public), tuple(body.messages), tuple(body.enums))

    def _type(self, body: _Body) -> bool:
        """Whether a message, an enum or an extension was there."""
        if self._take("message"):
            body.messages.append(self._message(self._name()))
        elif self._take("enum"):
            body.enums.append(self._enum())
        elif self._take("extend"):
            self._extend(body)
        else:
            return False
        return True

    def _extend(self, body: _Body) -> None:
        """Its fields are unknown ones here; but its groups declare messages, which a message index counts."""
        self._full_name()
        extension = _Body("")
        self._expect("{")
        while not self._take("}"):
            if not self._take(";"):
                self._field(extension, "")
        body.messages += extension.messages

    def _other(self) -> None:
        """A statement that is passed over. A service has a block, the others end with a semicolon."""
        if self._next() == "service":
            self._name()
            if not self._is("{"):
                self._fail("'{'")
            self._skip_block()
        else:
            self._skip_statement()

    def _skip_block(self) -> None:
        opened: list[str] = []
        while True:
            token = self._token
            if token.kind == "symbol" and token.text in _OPEN:
                opened.append(_CLOSE[_OPEN.index(token.text)])
            elif token.kind == "symbol" and token.text in _CLOSE and (not opened or opened.pop() != token.text):
                self._fail("the bracket that fits")
            self._next()
            if not opened:
                return

    def _skip_statement(self) -> None:
        if self._is(";"):
            self._fail("a word")
        while not self._take(";"):
            if self._token.kind == "symbol" and self._token.text in _OPEN + _CLOSE:
                self._skip_block()
            else:
                self._next()

    def _message(self, name: str) -> MessageDescriptor:
        body = _Body(name)
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise SchemaError(f"{self._place}: messages are within messages more than {MOST_DEPTH} deep")
        self._expect("{")
        while not self._take("}"):
            if self._take(";") or self._type(body):
                continue
            if self._is("oneof"):
                self._oneof(body)
            elif self._is("option"):
                # protoc makes this option of `map<...>`; Confluent's serializers for Java register it instead.
                said = [token.text for token in self._tokens[self._at : self._at + len(_MAP_ENTRY)]]
                body.is_map_entry |= said == _MAP_ENTRY
                self._other()
            elif self._is("reserved") or self._is("extensions"):
                self._other()
            else:
                self._field(body, "")
        self._depth -= 1
        return body.done()

    def _oneof(self, body: _Body) -> None:
        self._expect("oneof")
        name, before = self._name(), len(body.fields)
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._is("option"):
                self._other()
            else:
                self._field(body, name)
        members = body.fields[before:]
        if not members:
            raise SchemaError(f"{self._place}: the oneof {name} has no fields")
        if any(member.optional for member in members):
            # Protoc makes an optional field of proto3 the only field of a oneof, and registries render it so.
            if len(members) > 1:
                raise SchemaError(f"{self._place}: the oneof {name} has an optional field beside others")
            body.fields[before] = replace(members[0], oneof="")

    def _label(self, oneof: str) -> str:
        label = self._next() if self._token.text in _LABELS and self._token.kind == NAME else ""
        if oneof and label and (label != "optional" or self._syntax != PROTO3):
            raise SchemaError(f"{self._place}: a field of a oneof is {label}")
        if label == "required" and self._syntax == PROTO3:
            raise SchemaError(f"{self._place}: {PROTO3} has no required fields")
        return label

    def _field(self, body: _Body, oneof: str) -> None:
        label = self._label(oneof)
        if self._is("map") and self._tokens[self._at + 1].text == "<":
            if label or oneof:
                raise SchemaError(f"{self._place}: a map is {label or 'in a oneof'}")
            self._map(body)
            return
        if not label and not oneof and self._syntax == PROTO2:
            self._fail(f"{', '.join(_LABELS)}, map, oneof, message or enum")
        type_name = self._full_name()
        kind = type_name if type_name in SCALARS else ""
        if type_name == GROUP and self._syntax == PROTO2:
            kind = GROUP
        name = self._name()
        self._expect("=")
        number = self._integer()
        default, packed = self._field_options(kind)
        if kind == GROUP:
            if not name[0].isupper():
                raise SchemaError(f"{self._place}: the name of a group begins with a capital letter, not so {name}")
            body.messages.append(self._message(name))
            type_name, name = name, name.lower()
        else:
            self._expect(";")
        body.fields.append(
            FieldDescriptor(
                name,
                number,
                kind,
                "" if kind in SCALARS else type_name,
                repeated=label == "repeated",
                required=label == "required",
                optional=label == "optional",
                packed=packed,
                default=default,
                oneof=oneof,
            )
        )

    def _map(self, body: _Body) -> None:
        """Make what protoc makes of a map: a repeated message with the fields key and value."""
        self._expect("map")
        self._expect("<")
        key = self._name()
        if key not in MAP_KEYS:
            raise SchemaError(f"{self._place}: {key} cannot be the key of a map")
        self._expect(",")
        value = self._full_name()
        self._expect(">")
        name = self._name()
        self._expect("=")
        number = self._integer()
        self._field_options(MESSAGE)
        self._expect(";")
        kind = value if value in SCALARS else ""
        entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
        fields = (
            FieldDescriptor("key", 1, key, optional=self._syntax == PROTO2),
            FieldDescriptor("value", 2, kind, "" if kind else value, optional=self._syntax == PROTO2),
        )
        body.messages.append(MessageDescriptor(entry, fields, is_map_entry=True))
        body.fields.append(FieldDescriptor(name, number, "", entry, repeated=True))

    def _field_options(self, kind: str) -> tuple[Default | None, bool | None]:
        """(default, packed)"""
        default: Default | None = None
        packed: bool | None = None
        if not self._take("["):
            return default, packed
        while True:
            name = self._option_part()
            while self._take("."):
                self._option_part()
                name = ""
            self._expect("=")
            if name == "default":
                default = self._default(kind)
            elif name == "packed":
                place = self._place
                packed = default_of("bool", self._name(), place) is True
            else:
                self._constant()
            if self._take("]"):
                return default, packed
            self._expect(",")

    def _option_part(self) -> str:
        """One of the parts of an option's name; empty: an extension, in brackets."""
        if not self._take("("):
            return self._name()
        self._full_name()
        self._expect(")")
        return ""

    def _default(self, kind: str) -> Default:
        place = self._place
        if self._syntax == PROTO3:
            raise SchemaError(f"{place}: {PROTO3} has no defaults")
        if kind == "string":
            return self._text()
        if kind == "bytes":
            return self._string()
        if self._token.kind not in (NAME, NUMBER) and not self._is("-"):
            self._fail("a value")
        text = "-" if self._take("-") else ""
        return default_of(kind, text + self._next(), place)

    def _constant(self) -> None:
        """A value of an option, which nothing here needs."""
        if self._is("{"):
            self._skip_block()
        elif self._token.kind == STRING:
            self._string()
        else:
            _ = self._take("-") or self._take("+")
            if self._token.kind == NUMBER:
                self._next()
            else:
                self._full_name()

    def _enum(self) -> EnumDescriptor:
        name = self._name()
        values: list[tuple[str, int]] = []
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if (self._is("option") or self._is("reserved")) and self._tokens[self._at + 1].text != "=":
                self._other()
                continue
            value = self._name()
            self._expect("=")
            values.append((value, self._integer()))
            self._field_options(MESSAGE)
            self._expect(";")
        return EnumDescriptor(name, tuple(values))
