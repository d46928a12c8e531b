"""Avro schema text (JSON) to values: names and namespaces, references to other texts, defaults, logical types.
Comments are passed over, as by Avro 1.12.

What a text can cost is bounded: its length, its depth, and the number of types when every name is replaced by what it
stands for (a short text can stand for 2^n of them). An error begins with the place: `$` is the schema, `.name` a field,
`[]` the items of an array, `{}` the values of a map, `(1)` the second branch of a union.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.defaults import default_value
from kafkasource.formats.avro.schema import (
    PRIMITIVES,
    Again,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroPrimitive,
    AvroRecord,
    Default,
    Fixed,
    Logical,
    Map,
    Named,
    Schema,
    Union,
    children,
    kind_of,
)
from kafkasource.formats.bounds import Steps, bounded_json, check_place, shown, without_comments

MOST_TEXT_BYTES = 4 << 20
MOST_DEPTH = 64
MOST_TYPES = 10_000  # with every name replaced by what it stands for

# The logical types of the specification, by the type that carries them. `decimal`, `uuid` on fixed and `duration` are
# checked in code.
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {
        *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    },
    "string": {"uuid"},
}
_FIXED_LOGICAL = {"uuid": 16, "duration": 12}  # and its size


def parse_schema(text: str, references: Mapping[str, str] | None = None, *, defaults: bool = True) -> Schema:
    """The schema of a text.

    `references`: texts of other schemas, each by the full name of the type that it defines, or behind those that it
    uses: then a name may be any, as for Confluent's clients. `defaults`: an error where a field's default is no value
    of the field. Without it, such a default counts as none: nobody uses those of the schema that data was written by.
    """
    parser = _Parser(references or {}, defaults)
    for name in parser.references:
        parser.load(name, "$", 0)
    return parser.parse(_json(text, "$"), "", "$", 0)


def _json(text: str, place: str) -> Any:
    if len(text) > MOST_TEXT_BYTES:
        raise SchemaError(f"{place}: the schema's text has {len(text)} characters; at most {MOST_TEXT_BYTES} are read")
    try:
        return bounded_json(without_comments(text), _no_constant)
    except ValueError as error:
        raise SchemaError(f"{place}: the schema's text is not JSON: {error}") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


class _Parser:
    """The names that are known while texts are read."""

    def __init__(self, references: Mapping[str, str], defaults: bool) -> None:
        self.references = references
        self._check_defaults = defaults
        self._loaded: set[str] = set()
        self._named: dict[str, Named] = {}
        self._types_in: dict[str, int] = {}  # how many types a name stands for
        self._depth_of: dict[str, int] = {}
        self._open_records: list[str] = []  # whose fields are being read
        self._open_references: list[str] = []  # whose texts are being read
        self._types = 0  # in what has been read, names replaced
        self._steps = Steps()

    def load(self, name: str, place: str, depth: int) -> None:
        """Read a reference, once. Its types count where they are used."""
        if name in self._loaded:
            return
        self._loaded.add(name)
        before, self._types = self._types, 0
        self._open_references.append(name)
        self.parse(_json(self.references[name], f"{place}<{name}>"), "", f"{place}<{name}>", depth)
        self._open_references.remove(name)
        self._types = before

    def parse(self, node: Any, namespace: str, place: str, depth: int) -> Schema:
        if depth > MOST_DEPTH:
            raise _too_deep(place)
        check_place(place)
        if isinstance(node, str):
            return self._by_name(node, namespace, place, depth)
        self._count(1, place)
        if isinstance(node, list):
            return self._union(node, namespace, place, depth)
        if not isinstance(node, dict):
            raise SchemaError(f"{place}: expected a type's name, an object or a list, not {shown(node)}")
        return self._object(node, namespace, place, depth)

    def _count(self, types: int, place: str) -> None:
        self._types += types
        if self._types > MOST_TYPES:
            raise SchemaError(
                f"{place[:300]}: the schema has more than {MOST_TYPES} types, each name replaced by its type"
            )

    def _by_name(self, word: str, namespace: str, place: str, depth: int) -> Schema:
        if word in PRIMITIVES:
            self._count(1, place)
            return AvroPrimitive(word)
        candidates = [word.removeprefix(".")]
        if namespace and "." not in word:
            candidates.insert(0, f"{namespace}.{word}")
        for name in candidates:
            if name in self._named:
                self._count(self._types_in[name], place)
                return self._named[name]
            if name in self._open_records:
                self._count(1, place)
                return Again(name)
            if name in self._open_references:
                raise SchemaError(f"{place}: {name} is not defined by the reference of this name, which uses it")
            if name in self.references and name not in self._loaded:
                self.load(name, place, depth)
                return self._by_name(name, "", place, depth)
        raise SchemaError(f"{place}: unknown type {shown(word)}: neither defined before, nor among the references")

    def _union(self, node: list[Any], namespace: str, place: str, depth: int) -> Union:
        branches: list[Schema] = []
        seen: set[str] = set()
        for index, item in enumerate(node):
            branch = self.parse(item, namespace, f"{place}({index})", depth + 1)
            if isinstance(branch, Union):
                raise SchemaError(f"{place}({index}): a union directly within a union")
            name = branch.name if isinstance(branch, (AvroRecord, Again, AvroEnum, Fixed)) else kind_of(branch)
            if name in seen:
                raise SchemaError(f"{place}({index}): the union has {name!r} twice")
            seen.add(name)
            branches.append(branch)
        if not branches:
            raise SchemaError(f"{place}: a union without branches has no values")
        return Union(tuple(branches))

    def _object(self, node: dict[str, Any], namespace: str, place: str, depth: int) -> Schema:
        kind = _member(node, "type", place)
        if isinstance(kind, (dict, list)):
            return self.parse(kind, namespace, place, depth + 1)
        if kind in PRIMITIVES:
            return AvroPrimitive(kind, _logical(node, kind, 0))
        if kind == "array":
            return AvroArray(self.parse(_member(node, "items", place), namespace, f"{place}[]", depth + 1))
        if kind == "map":
            return Map(self.parse(_member(node, "values", place), namespace, f"{place}{{}}", depth + 1))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(node, kind, namespace, place, depth)
        if isinstance(kind, str):
            return self._by_name(kind, namespace, place, depth)
        raise SchemaError(f"{place}: 'type' is {shown(kind)}, not a type")

    def _define(self, node: dict[str, Any], kind: str, namespace: str, place: str, depth: int) -> Named:
        name = _full_name(node, namespace, place)
        if name in self._named or name in self._open_records:
            raise SchemaError(f"{place}: {name} is defined twice")
        inner = name.rpartition(".")[0]
        aliases = tuple(alias if "." in alias or not inner else f"{inner}.{alias}" for alias in _aliases(node, place))
        before = self._types - 1  # without this type, which `parse` has counted
        defined: Named
        if kind == "enum":
            defined = _enum(node, name, aliases, place)
        elif kind == "fixed":
            size = _member(node, "size", place)
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                raise SchemaError(f"{place}: the size of {name} is {shown(size)}, not a number of bytes")
            defined = Fixed(name, size, aliases, _logical(node, "fixed", size))
        else:
            self._open_records.append(name)
            defined = AvroRecord(name, self._fields(node, inner, place, depth), aliases)
            self._open_records.remove(name)
        self._named[name] = defined
        self._depth_of[name] = 1 + max((self._depth(child) for _, child in children(defined)), default=0)
        if self._depth_of[name] > MOST_DEPTH:
            raise _too_deep(place)
        self._types_in[name] = self._types - before
        return defined

    def _depth(self, schema: Schema) -> int:
        """Return the schema with every name replaced by the type that it stands for."""
        if isinstance(schema, (AvroRecord, AvroEnum, Fixed)):
            return self._depth_of[schema.name]
        return 1 + max((self._depth(child) for _, child in children(schema)), default=0)

    def _fields(self, node: dict[str, Any], namespace: str, place: str, depth: int) -> tuple[AvroField, ...]:
        given = _member(node, "fields", place)
        if not isinstance(given, list):
            raise SchemaError(f"{place}: 'fields' is {shown(given)}, not a list")
        fields: dict[str, AvroField] = {}
        for index, item in enumerate(given):
            if not isinstance(item, dict):
                raise SchemaError(f"{place}: field {index} is {shown(item)}, not an object")
            name = _simple_name(_member(item, "name", f"{place}: field {index}"), f"{place}: field {index}")
            here = f"{place}.{name}"
            if name in fields:
                raise SchemaError(f"{here}: the record has two fields of this name")
            schema = self.parse(_member(item, "type", here), namespace, here, depth + 1)
            fields[name] = AvroField(name, schema, tuple(_aliases(item, here)), self._default(item, schema, here))
        return tuple(fields.values())

    def _default(self, field: dict[str, Any], schema: Schema, place: str) -> Default | None:
        if "default" not in field:
            return None
        try:
            return Default(default_value(schema, field["default"], place, self._steps))
        except SchemaError:
            if self._check_defaults:
                raise
            return None


def _too_deep(place: str) -> SchemaError:
    return SchemaError(
        f"{place[:300]}: the schema nests deeper than {MOST_DEPTH}, names replaced by what they stand for"
    )


def _enum(node: dict[str, Any], name: str, aliases: tuple[str, ...], place: str) -> AvroEnum:
    symbols = _member(node, "symbols", place)
    if not isinstance(symbols, list):
        raise SchemaError(f"{place}: the symbols of {name} are {shown(symbols)}, not a list")
    if len(symbols) > MOST_TYPES:
        raise SchemaError(f"{place}: {name} has {len(symbols)} symbols; at most {MOST_TYPES} are read")
    for symbol in symbols:
        _simple_name(symbol, place)
    if len(set(symbols)) != len(symbols):
        raise SchemaError(f"{place}: {name} has a symbol twice")
    default = node.get("default")
    if default is not None and default not in symbols:
        raise SchemaError(f"{place}: the default {shown(default)} of {name} is not one of its symbols")
    return AvroEnum(name, tuple(symbols), aliases, default)


def _logical(node: Mapping[str, Any], kind: str, size: int) -> Logical | None:
    """None where the type cannot carry it: the specification has it ignored then."""
    name = node.get("logicalType")
    if not isinstance(name, str):
        return None
    if name == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(node, size if kind == "fixed" else None)
    known = _FIXED_LOGICAL.get(name) == size if kind == "fixed" else name in _LOGICAL.get(kind, ())
    return Logical(name) if known else None


def _decimal(node: Mapping[str, Any], size: int | None) -> Logical | None:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if (
        type(precision) is not int
        or type(scale) is not int
        or not 0 < precision < 1 << 31
        or not 0 <= scale <= precision
    ):
        return None
    if size is not None and precision > (math.floor(math.log10(2) * (8 * size - 1)) if size else 0):
        return None
    return Logical("decimal", precision, scale)


def _full_name(node: Mapping[str, Any], namespace: str, place: str) -> str:
    name = _member(node, "name", place)
    if isinstance(name, str) and "." in name:
        namespace, _, name = name.rpartition(".")
    elif isinstance(node.get("namespace"), str):
        namespace = node["namespace"]
    _simple_name(name, place)
    for part in namespace.split(".") if namespace else ():
        # Debezium's are topics, which have dashes: Java's readers take any where their validation of names is off.
        _simple_name(f"_{part.replace('-', '_')}" if part else part, place)
    return f"{namespace}.{name}" if namespace else str(name)


def _simple_name(name: Any, place: str) -> str:
    """Letters, digits and underscores, as Java takes them: of any alphabet."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{place}: expected a name, not {shown(name)}")
    if not (name[0] == "_" or name[0].isalpha()) or not all(char == "_" or char.isalnum() for char in name):
        raise SchemaError(f"{place}: {shown(name)} is not a name: letters, digits and _ only, no digit first")
    return name


def _aliases(node: Mapping[str, Any], place: str) -> Sequence[str]:
    aliases = node.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise SchemaError(f"{place}: 'aliases' is {shown(aliases)}, not a list of names")
    return aliases


def _member(node: Mapping[str, Any], name: str, place: str) -> Any:
    if name not in node:
        raise SchemaError(f"{place}: {name!r} is missing")
    return node[name]
