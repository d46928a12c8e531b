"""A JSON Schema (draft 4 to 2020-12, its plain part) to an Arrow type.

| JSON Schema | column |
|---|---|
| `integer`; `number` | long; double |
| `string`; with `format` date-time, date; with `contentEncoding` base64 | string; timestamp, date; binary |
| `boolean` | boolean |
| `object` with `properties` | struct, in their order |
| `object` with a schema in `additionalProperties`, without `properties` | map of string |
| `array` with one schema in `items` | array |
| a type and `null`, as a list of types or by `anyOf`, `oneOf` | that type, nullable |
| `enum`, `const` without `type` | the type of their values |
| `$ref`; `allOf`, with the keywords beside it | its type; objects become one, an untyped part adds its `required` |
| all else: any type, several types, objects and arrays that do not say what is in them | string: the value's JSON |

A property is not nullable if it is `required` and its type has no null. A property whose schema is `false` gets no
column. Bounds, patterns and the like are ignored. A schema that refers to itself, or to nothing, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.bounds import MOST_PLACE, check_place

MOST_TYPES = 20_000  # that a schema may stand for: a `$ref` may be there often
MOST_DEPTH = 100

TEXT = pa.string()
_FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
_FURTHER = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf")  # where other schemas say the type
_TELLING = ("format", "contentEncoding")
_NAMES = ("object", "array", "string", "integer", "number", "boolean", "null")
Kind: TypeAlias = tuple[pa.DataType, bool]
"""A column's type, and whether it may be null."""
Path: TypeAlias = tuple[str, ...]
"""The parts of a place: (".lines", "[]", ".price") of `$.lines[].price`. A name may have dots and brackets itself."""


@dataclass(slots=True)
class Notes:
    """Facts that a type does not hold and a writer needs, by the path."""

    texts: dict[Path, tuple[str, ...]] = field(default_factory=dict)  # strings, with the texts of their `enum`
    holders: dict[Path, str] = field(default_factory=dict)  # object, array: they do not say what is in them
    null_there: set[Path] = field(default_factory=set)  # required, and may be null

    def forget(self, path: Path) -> None:
        """It turned out to be any value."""
        self.texts.pop(path, None)
        self.holders.pop(path, None)


def type_of_json_schema(schema: object, references: Mapping[str, object], notes: Notes | None = None) -> pa.DataType:
    """`schema`: its JSON; `references`: that of the schemas that it refers to, by the text of `$ref`. `notes`: to be
    filled for a writer, for whom what contains itself is a string, too: any value."""
    reader = _Reader(schema, references, notes or Notes(), notes is not None)
    return reader.of(schema, _Where((), _documents_of(schema, "")))[0]


Documents: TypeAlias = tuple[tuple[object, str], ...]
"""(schema, its base) of each schema with an `$id` around a place, the nearest first, and of the root."""


@dataclass(frozen=True, slots=True)
class _Where:
    path: Path
    documents: Documents
    within: tuple[int, ...] = ()  # the schemas on the way to here that a `$ref` names, by their identity
    depth: int = 0

    @property
    def place(self) -> str:
        return "$" + "".join(self.path)

    def at(self, *parts: str) -> _Where:
        return _Where((*self.path, *parts), self.documents, self.within, self.depth + 1)


Part: TypeAlias = tuple[Mapping[str, object], _Where]


@dataclass(slots=True)
class _Reader:
    schema: object
    references: Mapping[str, object]
    notes: Notes
    for_writer: bool
    _ids: dict[str, tuple[object, Documents]] = field(default_factory=dict)  # by `$id` and anchor
    _types: int = 0

    def __post_init__(self) -> None:
        for name, document in self.references.items():
            self._ids[name] = document, _documents_of(document, name)
        for name, document in [("", self.schema), *self.references.items()]:
            self._collect_ids(document, _documents_of(document, name))

    def of(self, schema: object, where: _Where) -> Kind:
        here = self._entered(schema, where)
        if not isinstance(schema, Mapping):
            return TEXT, True
        if isinstance(schema.get("$ref"), str):
            found = self._followed(schema["$ref"], here)
            return (TEXT, True) if found is None else self.of(*found)
        choice = _choice_of(schema, here)
        if choice is not None:
            return self._of_choice(choice, here)
        if "allOf" in schema:
            return self._of_all(list(self._parts(schema, where)))
        names = _types_of(schema, here)
        others = names - {"null"}
        nullable = "null" in names or not names
        if others == {"integer", "number"}:
            others = {"number"}
        if len(others) != 1:
            return TEXT, nullable
        return self._of_type(others.pop(), schema, here), nullable

    def _entered(self, schema: object, where: _Where) -> _Where:
        """Collect the parts of a schema. SchemaError where it is not a schema, or has too many."""
        self._types += 1
        if self._types > MOST_TYPES or where.depth > MOST_DEPTH:
            raise SchemaError(
                f"{where.place}: the schema has more than {MOST_TYPES} types, or more than {MOST_DEPTH} in each other"
            )
        if sum(map(len, where.path)) > MOST_PLACE:
            check_place(where.place)
        if schema is True:
            return where
        if not isinstance(schema, Mapping):
            raise SchemaError(f"{where.place}: expected a JSON Schema, got {str(schema)[:100]}")
        for word in ("$dynamicRef", "$recursiveRef"):
            if word in schema:
                raise SchemaError(f"{where.place}: {word} is not read. Give a reader schema in Spark's DDL")
        return _Where(where.path, _documents_in(schema, where.documents), where.within, where.depth)

    def _of_type(self, name: str, schema: Mapping[str, object], where: _Where) -> pa.DataType:
        if name == "object":
            return self._of_object(schema, where)
        if name == "array":
            items = schema.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in schema:
                self.notes.holders[where.path] = name
                return TEXT
            kind, nullable = self.of(items, where.at("[]"))
            return pa.list_(pa.field("element", kind, nullable))
        if name == "string":
            if schema.get("contentEncoding") == "base64":
                return pa.binary()
            kind = _FORMATS.get(str(schema.get("format")), TEXT)
            if kind == TEXT:
                self.notes.texts[where.path] = _texts_of(schema)
            return kind
        return {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}[name]

    def _of_object(self, schema: Mapping[str, object], where: _Where) -> pa.DataType:
        if _properties_of(schema, where):
            return self._struct([(schema, where)])
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping):
            kind, nullable = self.of(more, where.at("{}"))
            return pa.map_(pa.string(), pa.field("value", kind, nullable))
        self.notes.holders[where.path] = "object"
        return TEXT

    def _struct(self, parts: Sequence[Part]) -> pa.StructType:
        """Read the `properties` of all parts; some parts only say what is `required`."""
        found: dict[str, list[tuple[object, _Where]]] = {}
        needed: set[str] = set()
        for schema, where in parts:
            required = schema.get("required")
            needed |= {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
            for name, each in _properties_of(schema, where).items():
                found.setdefault(name, []).append((each, where.at(f".{name}")))
        fields = []
        for name, places in found.items():
            if len(places) == 1:
                kind, nullable = self.of(*places[0])
            else:
                kind, nullable = self._of_all([part for place in places for part in self._parts(*place)])
            if nullable and name in needed:
                self.notes.null_there.add(places[0][1].path)
            fields.append(pa.field(name, kind, nullable or name not in needed))
        return pa.struct(fields)

    def _of_choice(self, schemas: Sequence[object], where: _Where) -> Kind:
        others = [schema for schema in schemas if not _is_null(schema)]
        if len(others) != 1:
            return TEXT, len(others) != len(schemas) or any(schema is True for schema in schemas)
        kind, nullable = self.of(others[0], where.at())
        return kind, nullable or len(others) != len(schemas)

    def _of_all(self, parts: Sequence[Part]) -> Kind:
        """Return the type that all parts have. Parts that say no type are conditions, and add what is `required`;
        those that say nothing but a type do not stand against one that says more."""
        typed = [part for part in parts if _says_a_type(*part)]
        if not typed:
            return TEXT, True
        bare = [part for part in typed if _is_bare(*part)]
        telling = [part for part in typed if not _is_bare(*part)] or bare
        objects = [part for part in telling if _properties_of(*part) and _types_of(*part) - {"null"} == {"object"}]
        may_be_null = all("null" in _types_of(*part) for part in bare)
        if len(objects) == len(telling):
            return self._struct(parts), may_be_null and all("null" in _types_of(*part) for part in objects)
        kinds = [self.of(*part) for part in telling]
        nullable = may_be_null and all(each for _, each in kinds)
        if len(kinds) == 1:
            return kinds[0][0], nullable
        found = {kind for kind, _ in kinds}
        if found == {pa.int64(), pa.float64()}:
            return pa.int64(), nullable
        if len(found) == 1 and TEXT not in found:
            return found.pop(), nullable
        self.notes.forget(telling[0][1].path)
        return TEXT, nullable

    def _parts(self, schema: object, where: _Where) -> Iterator[Part]:
        """The schemas that a value must be all of: `$ref` and `allOf` are followed."""
        here = self._entered(schema, where)
        if not isinstance(schema, Mapping):
            return
        if isinstance(schema.get("$ref"), str):
            found = self._followed(schema["$ref"], here)
            if found is not None:
                yield from self._parts(*found)
        elif "allOf" in schema and _choice_of(schema, here) is None:
            yield {name: each for name, each in schema.items() if name not in ("allOf", "$id", "id")}, here
            for each in _schemas(schema["allOf"], "allOf", here):
                yield from self._parts(each, here.at())
        else:
            yield schema, here

    def _followed(self, reference: str, where: _Where) -> tuple[object, _Where] | None:
        """Find what a reference names; None: a writer's schema that contains itself, which is any value there."""
        found, documents = self._target(reference, where)
        if id(found) in where.within:
            if self.for_writer:
                return None
            raise SchemaError(
                f"{where.place}: {reference} contains itself, and Spark has no type for that. Give a reader schema "
                "without the field, in Spark's DDL"
            )
        within = (*where.within, id(found))
        return found, _Where(where.path, documents, within, where.depth + 1)

    def _target(self, reference: str, where: _Where) -> tuple[object, Documents]:
        """The schema, and the documents around it."""
        address, fragment = urldefrag(reference)
        whole = urljoin(where.documents[0][1], address)
        for name in (f"{whole}#{fragment}", reference):  # an anchor, or all of draft 4's `id` with its fragment
            if name in self._ids and name:
                return self._ids[name]
        documents = where.documents
        if address:
            name = address if address in self._ids else whole
            if name not in self._ids:
                raise SchemaError(
                    f"{where.place}: {reference} is neither in the schema nor among its references"
                    + (f" ({', '.join(sorted(self.references))})" if self.references else "")
                )
            documents = self._ids[name][1]
        return _pointed(documents, unquote(fragment), reference, where.place)

    def _collect_ids(self, document: object, documents: Documents) -> None:
        """All schemas within one that say an id, or an anchor."""
        waiting: list[tuple[object, Documents]] = [(document, documents)]
        while waiting:
            each, documents = waiting.pop()
            if isinstance(each, Mapping):
                documents = _documents_in(each, documents)
                nearest, base = documents[0]
                if _id_of(each):
                    name = base if nearest is each else urljoin(base, _id_of(each))
                    self._ids.setdefault(name, (each, documents))
                if isinstance(each.get("$anchor"), str):
                    self._ids.setdefault(f"{base}#{each['$anchor']}", (each, documents))
                waiting += [(part, documents) for part in each.values()]
            elif isinstance(each, list):
                waiting += [(part, documents) for part in each]


def _documents_of(schema: object, name: str) -> Documents:
    """A whole schema, whose name a registry knows."""
    said = _id_of(schema) if isinstance(schema, Mapping) else ""
    return ((schema, urljoin(name, said).removesuffix("#")),)


def _documents_in(schema: Mapping[str, object], around: Documents) -> Documents:
    """The documents around the contents of a schema. A schema with an `$id` is a document of its own; an `$id` that is
    only a fragment is an anchor (draft 4 to 7)."""
    said = _id_of(schema)
    if not said or said.startswith("#") or around[0][0] is schema:
        return around
    return ((schema, urljoin(around[0][1], said).removesuffix("#")), *around)


def _id_of(schema: Mapping[str, object]) -> str:
    found = schema.get("$id", schema.get("id"))
    return found if isinstance(found, str) else ""


def _schemas(found: object, word: str, where: _Where) -> Sequence[object]:
    if not isinstance(found, list) or not found:
        raise SchemaError(f"{where.place}: `{word}` is not a list of schemas")
    return found


def _properties_of(schema: Mapping[str, object], where: _Where) -> Mapping[str, object]:
    """Return the properties that an object may have: `false` is the schema of a forbidden one."""
    found = schema.get("properties", {})
    if not isinstance(found, Mapping):
        raise SchemaError(f"{where.place}: `properties` is not an object")
    return {name: each for name, each in found.items() if each is not False}


def _choice_of(schema: Mapping[str, object], where: _Where) -> Sequence[object] | None:
    """The schemas of `anyOf` or `oneOf`; None: `properties` say what there is, or all of them are conditions, as
    `{"required": ["a"]}`."""
    for word in ("anyOf", "oneOf"):
        if word in schema and "properties" not in schema:
            schemas = _schemas(schema[word], word, where)
            if not all(_is_condition(each, where) for each in schemas):
                return schemas
    return None


def _is_condition(schema: object, where: _Where) -> bool:
    if not isinstance(schema, Mapping):
        return schema is True
    return schema.keys().isdisjoint(_FURTHER) and not _types_of(schema, where)


def _says_a_type(schema: Mapping[str, object], where: _Where) -> bool:
    return _choice_of(schema, where) is not None or bool(_types_of(schema, where))


def _is_bare(schema: Mapping[str, object], where: _Where) -> bool:
    """Whether it says a type, and nothing that makes a column another one."""
    if _choice_of(schema, where) is not None or "enum" in schema or "const" in schema or _properties_of(schema, where):
        return False
    within = ("additionalProperties", "items")
    return schema.keys().isdisjoint(_TELLING) and not any(isinstance(schema.get(each), Mapping) for each in within)


def _is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") in ("null", ["null"])


def _types_of(schema: Mapping[str, object], where: _Where) -> set[str]:
    """The names of the types that a schema allows; none where it allows all."""
    said = schema.get("type")
    if said is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            return {_type_of_value(value) for value in values}
        if "properties" in schema:
            return {"object"}
        return {"array"} if isinstance(schema.get("items"), Mapping) else set()
    names = said if isinstance(said, list) else [said]
    for name in names:
        if name not in _NAMES:
            raise SchemaError(f"{where.place}: JSON Schema has no type {str(name)[:100]!r}")
    return set(names)


def _texts_of(schema: Mapping[str, object]) -> tuple[str, ...]:
    """The texts that `enum` or `const` allows; none: all."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str))) if isinstance(values, list) else ()


def _type_of_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _pointed(documents: Documents, fragment: str, reference: str, place: str) -> tuple[object, Documents]:
    """Find what a JSON pointer names in the nearest document, else in a document around it:
    many take a pointer from the root, whatever ids there are in between."""
    if fragment and not fragment.startswith("/"):
        raise SchemaError(f"{place}: {reference}: the schema has no anchor {fragment!r}")
    for number, (document, _) in enumerate(documents):
        found = _at_pointer(document, fragment)
        if found is not None:
            return found, documents[number:]
    raise SchemaError(f"{place}: {reference}: there is nothing of this name")


def _at_pointer(document: object, fragment: str) -> object:
    """None: nothing, or null, which is no schema either."""
    found = document
    for step in fragment.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and len(name) < 6 and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found
