"""The options of `from_protobuf` that change what values look like; Google's protobuf says which values there are."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from protobuf_oracle import F, Schema, fill, plain
from random_inputs import examples

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.rendering import Rendering
from kafkasource.formats.protobuf.schema import read_schema

MANY_BYTES = 16 << 20
PERSON = """syntax = "proto3"; package p;
message Person {
  string name = 1; Person friend = 2; repeated Person all = 3; map<string, Person> by_name = 4; Pet pet = 5;
}
message Pet { int32 legs = 1; Person owner = 2; }
"""


def decoder(text, name, **rendering):
    schema = read_schema(text)
    return ProtobufDecoder(schema, schema.message_named(name), Rendering(**rendering))


def columns(kind):
    """Names, and of structs what is within them."""
    if pa.types.is_struct(kind):
        return {field.name: columns(field.type) for field in kind}
    return (
        columns(kind.item_type) if pa.types.is_map(kind) else columns(kind.value_type) if pa.types.is_list(kind) else 0
    )


def test_a_message_within_itself_is_cut_off_at_the_depth_that_is_given():
    with pytest.raises(SchemaError, match=r"contains itself.*protobuf\.recursive\.fields\.max\.depth"):
        decoder(PERSON, "Person")
    one = columns(decoder(PERSON, "Person", recursive_fields_max_depth=1).type)
    assert one == {"name": 0, "pet": {"legs": 0}}
    two = columns(decoder(PERSON, "Person", recursive_fields_max_depth=2).type)
    assert two["friend"] == {"name": 0, "pet": {"legs": 0}}
    assert two["all"] == two["by_name"] == two["friend"]
    assert two["pet"] == {"legs": 0, "owner": two["friend"]}  # each type counts for itself: a pet's owner has a pet


def test_what_is_deeper_than_the_columns_is_passed_over():
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="Person")
    message.field.add(name="name", number=1, type=F.TYPE_STRING, label=1)
    message.field.add(name="friend", number=2, type=F.TYPE_MESSAGE, type_name=".p.Person", label=1)
    message.field.add(name="all", number=3, type=F.TYPE_MESSAGE, type_name=".p.Person", label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    person = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Person"))
    deep = person(name="a", friend=person(name="b", friend=person(name="c"), all=[person(name="d")]))
    text = (
        'syntax = "proto3"; package p; message Person { string name = 1; Person friend = 2; repeated Person all = 3; }'
    )
    found = decoder(text, "Person", recursive_fields_max_depth=2)
    piece = found.decode(pa.array([deep.SerializeToString(), b""], pa.binary()), MANY_BYTES)
    assert piece.array.to_pylist() == [
        {"name": "a", "friend": {"name": "b"}, "all": []}, {"name": None, "friend": None, "all": []}
    ]  # fmt: skip


def rendered(schema, message, defaults, numbers):
    """Show a message of Google's classes as our columns do."""
    return {field.name: _field(schema, message, field, defaults, numbers) for field in message.DESCRIPTOR.fields}


def _field(schema, message, field, defaults, numbers):
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        key = field.message_type.fields_by_name["key"]
        return {_shown(schema, key, name, defaults, numbers): _shown(schema, of, each, defaults, numbers)
                for name, each in value.items()}  # fmt: skip
    if hasattr(value, "append") or hasattr(value, "add"):
        return [_shown(schema, field, item, defaults, numbers) for item in value]
    if field.has_presence and not message.HasField(field.name):
        if field.message_type is not None or not field.has_default_value:
            return None
    elif not field.has_presence and not defaults and not value and str(value) != "-0.0":
        return None
    return _shown(schema, field, value, defaults, numbers)


def _shown(schema, field, value, defaults, numbers):
    from protobuf_oracle import _shown as with_names

    if field.enum_type is not None and numbers:
        return value
    if field.message_type is not None and not field.message_type.full_name.startswith("google."):
        return rendered(schema, value, defaults, numbers)
    return with_names(field, value)


@pytest.mark.parametrize(("defaults", "numbers"), [(True, False), (False, True), (True, True)])
def test_defaults_and_numbers_of_enums_are_those_of_googles_protobuf(defaults, numbers):
    for seed in range(examples(300)):
        rng = random.Random(seed)
        schema = Schema(rng)
        records = [fill(rng, schema.type()).SerializeToString() for _ in range(4)]
        found = decoder(schema.text, "p.M0", emit_default_values=defaults, enums_as_ints=numbers)
        piece = found.decode(pa.array([*records, b""] if schema.is_proto3 else records, pa.binary()), MANY_BYTES)
        piece.array.validate(full=True)
        assert not piece.bad, (seed, list(piece.faults()))
        for ours, record in zip(plain(piece.array), records, strict=False):
            theirs = rendered(schema, schema.type.FromString(record), defaults, numbers)
            assert repr(sorted_maps(ours)) == repr(sorted_maps(theirs)), (seed, record)


def sorted_maps(value):
    if isinstance(value, dict):
        return {key: sorted_maps(value[key]) for key in sorted(value, key=str)}
    return [sorted_maps(item) for item in value] if isinstance(value, list) else value
