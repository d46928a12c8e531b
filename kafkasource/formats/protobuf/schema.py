"""A Protobuf schema with all that it imports: each field knows its type, and each message and enum its full name.

Names are looked up as protoc does: from the innermost message outwards, the first part of the name decides, and only
the file, its imports and their public imports are seen. An error begins with the full name of the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kafkasource.errors import SchemaError
from kafkasource.formats.bounds import check_place
from kafkasource.formats.protobuf.common_types import common_file
from kafkasource.formats.protobuf.descriptors import (
    ENUM,
    GROUP,
    MESSAGE,
    PROTO3,
    SCALARS,
    UNPACKABLE,
    Default,
    EnumDescriptor,
    FieldDescriptor,
    File,
    MessageDescriptor,
)
from kafkasource.formats.protobuf.encoded import read_file
from kafkasource.formats.protobuf.message_index import MessageIndex

MOST_FIELD_NUMBER = (1 << 29) - 1
_RESERVED = range(19000, 20000)
_MOST_FILES = 1000
_MAP_ENTRY = [("key", 1, False), ("value", 2, False)]


@dataclass(frozen=True, slots=True)
class EnumType:
    full_name: str
    values: tuple[tuple[str, int], ...]  # several may have the same number
    is_closed: bool  # of proto2: a number without a name is no value


@dataclass(frozen=True, slots=True)
class FieldType:
    name: str
    number: int
    kind: str  # of descriptors.KINDS
    type_name: str  # the full name of its message or enum, without a dot in front; else empty
    repeated: bool
    required: bool
    has_presence: bool  # whether a record tells an absent value from the default
    packed: bool  # as writers have it; readers take both
    default: Default | None  # that the schema says itself
    oneof: str


@dataclass(frozen=True, slots=True)
class MessageType:
    full_name: str
    fields: tuple[FieldType, ...]  # in the order of the text
    is_map_entry: bool


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    messages: Mapping[str, MessageType]  # by full name: those of the schema's own file, and of all it imports
    enums: Mapping[str, EnumType]
    _own: tuple[tuple[str, MessageDescriptor], ...]  # (full name, message) of the file's own, not those within
    _sorted: tuple[str, ...]  # the full names of the file's own, those within, too

    @property
    def own_names(self) -> list[str]:
        """The full names of the messages that the file declares, in their order; not of those within messages."""
        return [full_name for full_name, _ in self._own]

    def message_at(self, index: MessageIndex) -> MessageType:
        """Find a message by its index. Raises SchemaError."""
        if isinstance(index, int):
            if index >= len(self._sorted):
                raise SchemaError(f"the schema: it has {len(self._sorted)} messages, and none at the place {index}")
            return self.messages[self._sorted[index]]
        within, full_name = self._own, ""
        for number in index:
            if not 0 <= number < len(within):
                raise SchemaError(f"{full_name or 'the schema'}: no message has the index {list(index)}")
            full_name, message = within[number]
            within = tuple((f"{full_name}.{inner.name}", inner) for inner in message.messages)
        if not full_name:
            raise SchemaError("the schema: a message index without numbers names no message")
        return self.messages[full_name]

    def index_of(self, message: MessageType) -> tuple[int, ...]:
        """The message index. SchemaError where another file declares the message."""
        within: list[tuple[tuple[int, ...], tuple[str, MessageDescriptor]]] = [
            ((at,), each) for at, each in enumerate(self._own)
        ]
        while within:
            index, (full_name, found) = within.pop()
            if full_name == message.full_name:
                return index
            nested = [(f"{full_name}.{inner.name}", inner) for inner in found.messages]
            within += [((*index, number), each) for number, each in enumerate(nested)]
        raise SchemaError(f"{message.full_name}: the schema's own file does not declare it")

    def message_named(self, name: str) -> MessageType:
        """Find a message by its full name, or by an end of it that only one own message has. Raises SchemaError."""
        if name in self.messages:
            return self.messages[name]
        own = [full_name for full_name, _ in _walk(self._own)]
        found = [each for each in own if each.endswith(f".{name}")]
        if len(found) != 1:
            which = f"there are {', '.join(found)}" if found else f"it has {', '.join(own[:20]) or 'no messages'}"
            raise SchemaError(f"{name}: the schema has no one message of this name; {which}")
        return self.messages[found[0]]


def read_schema(text: str, references: Mapping[str, str] | None = None) -> ProtobufSchema:
    """`text`: of the schema, `.proto` or base64; `references`: the texts of its imports, by their paths."""
    files = _Files(references or {})
    file = read_file(text)
    files.add("", file)
    return _Linker(files).schema(file)


@dataclass
class _Files:
    """The file and all that it imports, near or far."""

    references: Mapping[str, str]
    files: dict[str, File] = field(default_factory=dict)  # by path; the schema's own has none
    missing: set[str] = field(default_factory=set)

    def add(self, path: str, file: File) -> None:
        self.files[path] = file
        waiting = list(file.imports)
        while waiting:
            path = waiting.pop()
            if path in self.files or path in self.missing:
                continue
            if len(self.files) >= _MOST_FILES:
                raise SchemaError(f"{path}: the schema imports more than {_MOST_FILES} files")
            found = self._load(path)
            if found is None:
                self.missing.add(path)  # an error only where one of its types is needed
                continue
            self.files[path] = found
            waiting += found.imports

    def _load(self, path: str) -> File | None:
        if path not in self.references:
            return common_file(path)
        try:
            return read_file(self.references[path])
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None

    def visible_from(self, path: str) -> list[File]:
        """Return the file, its imports, and the files that those import publicly."""
        seen = [path]
        waiting = list(self.files[path].imports)
        while waiting:
            each = waiting.pop()
            if each in self.files and each not in seen:
                seen.append(each)
                waiting += self.files[each].public_imports
        return [self.files[each] for each in seen]


def _walk(messages: tuple[tuple[str, MessageDescriptor], ...]) -> Iterator[tuple[str, MessageDescriptor]]:
    for full_name, message in messages:
        yield full_name, message
        yield from _walk(tuple((f"{full_name}.{inner.name}", inner) for inner in message.messages))


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _own(file: File) -> tuple[tuple[str, MessageDescriptor], ...]:
    return tuple((_joined(file.package, message.name), message) for message in file.messages)


def _enums(file: File) -> Iterator[tuple[str, EnumDescriptor]]:
    for each in file.enums:
        yield _joined(file.package, each.name), each
    for full_name, message in _walk(_own(file)):
        for enum in message.enums:
            yield f"{full_name}.{enum.name}", enum


class _Linker:
    def __init__(self, files: _Files) -> None:
        self._files = files
        self._enums: dict[str, EnumType] = {}
        self._values_of: dict[str, set[str]] = {}  # names of the values of an enum, where a default needs them
        self._kinds: dict[str, str] = {}  # of types, by full name
        self._of_file: dict[int, set[str]] = {}
        for file in files.files.values():
            names = self._of_file[id(file)] = set()
            for full_name, _ in _walk(_own(file)):
                self._declare(full_name, MESSAGE, names)
            for full_name, enum in _enums(file):
                self._declare(full_name, ENUM, names)
                self._enums[full_name] = _enum_type(full_name, enum, file.syntax)

    def _declare(self, full_name: str, kind: str, names: set[str]) -> None:
        check_place(full_name)
        if full_name in self._kinds:
            raise SchemaError(f"{full_name}: the schema declares it twice")
        self._kinds[full_name] = kind
        names.add(full_name)

    def schema(self, own: File) -> ProtobufSchema:
        messages = {}
        for path, file in self._files.files.items():
            types: set[str] = set()
            packages: set[str] = set()
            for seen in self._files.visible_from(path):
                check_place(seen.package)
                types |= self._of_file[id(seen)]
                parts = seen.package.split(".")
                packages |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
            for full_name, message in _walk(_own(file)):
                messages[full_name] = self._message(full_name, message, file, types, packages)
        found = _own(own)
        return ProtobufSchema(messages, self._enums, found, tuple(sorted(name for name, _ in _walk(found))))

    def _message(
        self, full_name: str, message: MessageDescriptor, file: File, types: set[str], packages: set[str]
    ) -> MessageType:
        names: set[str] = set()
        numbers: set[int] = set()
        fields = []
        for member in message.fields:
            place = f"{full_name}.{member.name}"
            if member.name in names or member.number in numbers:
                raise SchemaError(f"{place}: another field of the message has its name or its number {member.number}")
            if not 1 <= member.number <= MOST_FIELD_NUMBER or member.number in _RESERVED:
                raise SchemaError(f"{place}: {member.number} cannot be the number of a field")
            names.add(member.name)
            numbers.add(member.number)
            type_name = "" if member.kind in SCALARS else self._type_name(member, full_name, types, packages)
            fields.append(self._field(member, type_name, file.syntax, place))
        is_map_entry = message.is_map_entry
        if is_map_entry and [(member.name, member.number, member.repeated) for member in fields] != _MAP_ENTRY:
            raise SchemaError(f"{full_name}: the entry of a map has the fields key = 1 and value = 2, and no others")
        return MessageType(full_name, tuple(fields), is_map_entry)

    def _type_name(self, each: FieldDescriptor, scope: str, types: set[str], packages: set[str]) -> str:
        place = f"{scope}.{each.name}"
        first, _, rest = each.type_name.lstrip(".").partition(".")
        if each.type_name.startswith("."):
            scope = ""
        while True:
            found = _joined(scope, first)
            whole = _joined(found, rest) if rest else found
            if whole in types:
                return whole
            if not scope or (rest and (found in types or found in packages)):
                break
            scope = scope.rpartition(".")[0]
        missing = ", ".join(sorted(self._files.missing))
        hint = f"; the schema has no reference for its imports {missing}" if missing else ""
        raise SchemaError(f"{place}: no type {each.type_name} is declared where the field can see it{hint}")

    def _field(self, each: FieldDescriptor, type_name: str, syntax: str, place: str) -> FieldType:
        kind = each.kind if each.kind in SCALARS else self._kinds[type_name]
        if each.kind == GROUP:
            if kind != MESSAGE:
                raise SchemaError(f"{place}: a group is not a message")
            kind = GROUP
        if each.default is not None:
            self._check_default(each, kind, type_name, place)
        packable = each.repeated and kind not in UNPACKABLE
        if each.packed and not packable:
            raise SchemaError(f"{place}: only repeated numbers, booleans and enums can be packed")
        default = None if each.default is None else _float_default(kind, each.default, place)
        singular = not each.repeated
        return FieldType(
            each.name,
            each.number,
            kind,
            type_name,
            repeated=each.repeated,
            required=each.required,
            has_presence=singular
            and (syntax != PROTO3 or each.optional or bool(each.oneof) or kind in (MESSAGE, GROUP)),
            packed=packable and (each.packed if each.packed is not None else syntax == PROTO3),
            default=default,
            oneof=each.oneof,
        )

    def _check_default(self, each: FieldDescriptor, kind: str, type_name: str, place: str) -> None:
        if each.repeated or kind in (MESSAGE, GROUP):
            raise SchemaError(f"{place}: a repeated field or a message has no default")
        if kind != ENUM:
            return
        if type_name not in self._values_of:
            self._values_of[type_name] = {name for name, _ in self._enums[type_name].values}
        if each.default not in self._values_of[type_name]:
            raise SchemaError(f"{place}: the default {each.default!r} is not a value of {type_name}")


def _float_default(kind: str, default: Default, place: str) -> Default:
    if kind not in ("float", "double") or not isinstance(default, int):
        return default
    try:
        return float(default)
    except OverflowError:
        raise SchemaError(f"{place}: the default is beyond what a {kind} holds") from None


def _enum_type(full_name: str, enum: EnumDescriptor, syntax: str) -> EnumType:
    if not enum.values:
        raise SchemaError(f"{full_name}: the enum has no values")
    if len({name for name, _ in enum.values}) < len(enum.values):
        raise SchemaError(f"{full_name}: two values of the enum have the same name")
    if any(not -(1 << 31) <= number < 1 << 31 for _, number in enum.values):
        raise SchemaError(f"{full_name}: a value of the enum is beyond 32 bits")
    if syntax == PROTO3 and enum.values[0][1] != 0:
        raise SchemaError(f"{full_name}: the first value of an enum of {PROTO3} is 0")
    return EnumType(full_name, enum.values, is_closed=syntax != PROTO3)
