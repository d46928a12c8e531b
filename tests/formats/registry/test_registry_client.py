"""The calls of a registry's client against a registry in memory."""

import threading
from uuid import UUID

import pytest
from fake_registry import Fault, a_registry, json_answer, refusal
from registry_clients import Clock, a_client

from kafkasource.errors import (
    ReferencesBroken,
    RegistryAccessRefused,
    RegistryError,
    RegistryUnavailable,
    SchemaIncompatible,
    SchemaNotFound,
    SchemaRefused,
    UnknownSchemaId,
)
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.avro.schema import AvroRecord
from kafkasource.formats.registry import Definition, Reference, RegistryOptions, registry_of
from kafkasource.formats.registry.client import MOST_UNKNOWN, UNKNOWN_PAUSE_S
from kafkasource.formats.schema_source import RegisteredSchema

LONG = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
TEXT = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


@pytest.fixture
def registry():
    with a_registry() as found:
        yield found


def test_a_schema_by_its_id_is_asked_for_once(registry):
    schema_id = registry.add("t-value", LONG)
    client = a_client(registry.url)
    assert [client.schema(schema_id) for _ in range(3)] == [RegisteredSchema("AVRO", LONG)] * 3
    assert registry.paths == [f"/schemas/ids/{schema_id}"]
    assert "application/vnd.schemaregistry.v1+json" in registry.requests[0].headers["Accept"]
    assert "Authorization" not in registry.requests[0].headers


def test_an_id_that_the_registry_lacks_is_believed_for_a_short_time(registry):
    clock = Clock()
    client = a_client(registry.url, clock, missing_id_cache_ttl_sec="30")
    for _ in range(3):
        with pytest.raises(UnknownSchemaId, match="40403"):
            client.schema(1)
    assert len(registry.requests) == 1
    registry.add("t-value", LONG)
    clock.now_s = 29.9
    with pytest.raises(UnknownSchemaId):
        client.schema(1)
    clock.now_s = 30
    assert client.schema(1).text == LONG
    assert len(registry.requests) == 2
    assert clock.slept == []


@pytest.mark.parametrize(
    "missing", [(404, b"<html>nginx</html>"), (404, b"{}"), refusal(404, 404, "HTTP 404 Not Found")]
)
def test_a_404_that_is_not_the_registrys_own_is_no_unknown_id(registry, missing):
    registry.always = Fault(*missing)
    client = a_client(registry.url)
    for _ in range(2):
        with pytest.raises(RegistryError, match=r"path of schemaRegistry\.url") as raised:
            client.schema(1)
        assert type(raised.value) is RegistryError
    assert len(registry.requests) == 2  # and nobody remembers it


def test_threads_that_ask_for_one_id_ask_once(registry):
    schema_id, other = registry.add("t-value", LONG), registry.add("u-value", TEXT)
    client = a_client(registry.url)
    threads = 16
    begin, found = threading.Barrier(threads), []

    def ask(number):
        begin.wait()
        found.append(client.schema(schema_id if number % 2 else other).text)

    workers = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for each in workers:
        each.join()
    assert sorted(found) == sorted([LONG, TEXT] * 8)
    assert sorted(registry.paths) == sorted(f"/schemas/ids/{each}" for each in (schema_id, other))


def test_all_who_wait_for_an_id_get_the_error_of_the_one_who_asked(registry):
    asked, answer = threading.Event(), threading.Event()

    def before(request):
        asked.set()
        answer.wait(60)

    registry.before, registry.always = before, Fault(403)
    client, errors = a_client(registry.url), []

    def ask():
        try:
            client.schema(1)
        except RegistryError as error:
            errors.append(error)

    workers = [threading.Thread(target=ask) for _ in range(4)]
    workers[0].start()
    asked.wait(60)
    for worker in workers[1:]:
        worker.start()
    answer.set()
    for each in workers:
        each.join()
    assert {str(error) for error in errors} == {str(errors[0])}
    assert len({id(error) for error in errors}) == 4
    assert 1 <= len(registry.requests) <= 4  # a thread may have come after the answer


def test_an_id_that_the_registry_does_not_give_to_this_user_is_unknown_and_a_proxys_refusal_is_a_failure(registry):
    """Confluent's RBAC: a record may name the id of a subject that others may read."""
    registry.always = Fault(*refusal(403, 40301, "User is denied operation Read on Subject: other-value"))
    with pytest.raises(UnknownSchemaId, match=r"403 Forbidden .*denied operation Read"):
        a_client(registry.url).schema(2)
    registry.always = Fault(403, b"<html>")
    with pytest.raises(RegistryAccessRefused):
        a_client(registry.url).schema(2)


def test_records_cannot_make_a_client_ask_without_end(registry, caplog):
    clock = Clock()
    client = a_client(registry.url, clock)
    known = registry.add("t-value", LONG)
    assert client.schema(known).text == LONG
    for made_up in range(1000, 1000 + 3 * MOST_UNKNOWN):
        with pytest.raises(UnknownSchemaId):
            client.schema(made_up)
    assert len(registry.requests) == 1 + MOST_UNKNOWN
    assert caplog.text.count("asked for no further id") == 1
    assert client.schema(known).text == LONG
    later = registry.add("t-value", LONG.replace("long", "int"))
    with pytest.raises(UnknownSchemaId, match="not asked for schema id"):
        client.schema(later)
    clock.now_s += UNKNOWN_PAUSE_S
    assert client.schema(later).text == LONG.replace("long", "int")
    for made_up in range(2000, 2000 + MOST_UNKNOWN - 1):
        with pytest.raises(UnknownSchemaId):
            client.schema(made_up)
    clock.now_s += UNKNOWN_PAUSE_S  # a few unknown ids are not an attack
    with pytest.raises(UnknownSchemaId, match="404"):
        client.schema(3000)
    assert registry.paths[-1] == "/schemas/ids/3000"


def test_references_come_with_the_schema_those_that_others_use_first(registry):
    registry.add("c", '"c"')
    registry.add("b", '"b"', references=(("n.C", "c", 1),))
    registry.add("d", '"d"', references=(("n.C", "c", 1),))
    schema_id = registry.add("a", '"a"', "AVRO", (("n.B", "b", 1), ("n.D", "d", -1)))
    client = a_client(registry.url)
    found = client.schema(schema_id)
    assert found.references == (("n.C", '"c"'), ("n.B", '"b"'), ("n.D", '"d"'))
    assert dict(found.texts_by_name)["n.D"] == '"d"'
    assert len(registry.requests) == 4  # c is asked for once
    assert all(path.endswith("?deleted=true") for path in registry.paths[1:])
    other = registry.add("e", '"e"', references=(("n.B", "b", 1),))
    client.schema(other)
    assert len(registry.requests) == 5  # versions are kept


def test_a_schema_with_references_is_one_that_avro_can_be_read_by(registry):
    registry.add("r", '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"long"}]}')
    middle = '{"type":"record","name":"M","namespace":"n","fields":[{"name":"r","type":"n.R"}]}'
    registry.add("m", middle, references=(("n.R", "r", 1),))
    order = '{"type":"record","name":"Order","fields":[{"name":"m","type":"n.M"},{"name":"r","type":"n.R"}]}'
    found = a_client(registry.url).schema(registry.add("o", order, references=(("n.M", "m", 1),)))
    schema = parse_schema(found.text, found.texts_by_name)
    assert isinstance(schema, AvroRecord)
    assert [field.name for field in schema.fields] == ["m", "r"]


def test_a_cycle_of_references_is_an_error_and_no_deadlock(registry):
    registry.add("a", '"a"', references=(("B", "b", 1),))
    registry.add("b", '"b"', references=(("A", "a", 1),))
    client = a_client(registry.url)
    with pytest.raises(RegistryError, match="refers to itself"):
        client.schema(1)
    with pytest.raises(RegistryError, match="refers to itself"):
        client.schema(2)


def test_references_without_end_are_cut_off(registry):
    def endless(request):
        number = int(request.path.rpartition("/versions/")[2].partition("?")[0]) if "versions" in request.path else 0
        reference = {"name": f"n{number}", "subject": "s", "version": number + 1}
        registry.faults.append(Fault(*json_answer(200, {"schema": f'"{number}"', "references": [reference]})))

    client = a_client(registry.url)
    answer = registry.answer
    registry.answer = lambda request: (endless(request), (registry.faults[0].status, registry.faults.pop().body))[1]
    with pytest.raises(RegistryError, match="more than 64 deep"):
        client.schema(1)
    assert len(registry.requests) == 65
    registry.answer = answer


def test_a_reference_that_is_missing_is_not_an_unknown_id(registry):
    schema_id = registry.add("a", '"a"', references=(("B", "gone", 3),))
    client = a_client(registry.url)
    for _ in range(2):
        with pytest.raises(
            RegistryError, match="subject 'gone', version 3, which the registry does not have"
        ) as raised:
            client.schema(schema_id)
        assert type(raised.value) is ReferencesBroken


def test_a_version_whose_references_are_broken_hides_no_other_version(registry, caplog):
    broken = registry.add("t-value", '"a"', references=(("B", "gone", 3),))
    whole = registry.add("t-value", TEXT)
    client = a_client(registry.url)
    assert client.known("t-value") == {whole: RegisteredSchema("AVRO", TEXT)}
    assert "subject 't-value', version 1 cannot be followed" in caplog.text
    with pytest.raises(ReferencesBroken):
        client.schema(broken)


def test_of_two_schemas_of_one_name_the_first_is_taken_as_confluents_clients_do(registry, caplog):
    """Their AbstractSchemaProvider goes depth first and passes over a name that it has seen."""
    registry.add("b", '"b1"')
    registry.add("b", '"b2"')
    registry.add("c", '"c"', references=(("n.B", "b", 1),))
    far, near = ("n.C", "c", 1), ("n.B", "b", 2)
    for text, references, taken in (('"a1"', (far, near), '"b1"'), ('"a2"', (near, far), '"b2"')):
        schema_id = registry.add("a", text, references=references)
        assert dict(a_client(registry.url).schema(schema_id).references)["n.B"] == taken
    assert "different schemas named n.B: the first of them is taken" in caplog.text


def test_subjects_and_versions(registry):
    first, second = registry.add("t-value", LONG), registry.add("t-value", TEXT)
    registry.add("a/b ü", "message", "PROTOBUF")
    client = a_client(registry.url)
    assert client.subjects() == ["a/b ü", "t-value"]
    assert client.versions("t-value") == [1, 2]
    assert (client.version("t-value").schema_id, client.version("t-value", 1).schema_id) == (second, first)
    assert client.version("a/b ü").definition.kind == "PROTOBUF"
    assert registry.paths[-1] == "/subjects/a%2Fb%20%C3%BC/versions/latest"
    with pytest.raises(SchemaNotFound, match="40402"):
        client.version("t-value", 9)
    with pytest.raises(SchemaNotFound, match="40401"):
        client.versions("other")


def test_registering_again_gives_the_same_id(registry):
    client = a_client(registry.url)
    schema_id = client.register("t-value", Definition(LONG))
    assert client.register("t-value", Definition(LONG)) == schema_id
    assert registry.requests[0].body == {"schema": LONG}
    proto = Definition("syntax", "PROTOBUF", (Reference("o.proto", "o", 1),))
    client.register("p", proto, normalize=True)
    assert registry.requests[-1].path == "/subjects/p/versions?normalize=true"
    assert registry.requests[-1].body == {
        "schema": "syntax",
        "schemaType": "PROTOBUF",
        "references": [{"name": "o.proto", "subject": "o", "version": 1}],
    }
    found = client.look_up("t-value", Definition(LONG))
    assert (found.subject, found.version, found.schema_id) == ("t-value", 1, schema_id)
    with pytest.raises(SchemaNotFound):
        client.look_up("t-value", Definition(TEXT))


def test_what_is_not_compatible_is_said_with_the_field(registry):
    registry.add("t-value", LONG)
    client = a_client(registry.url)
    assert client.check("t-value", Definition(TEXT)).is_compatible
    registry.compatible = False
    found = client.check("t-value", Definition(TEXT))
    assert not found.is_compatible
    assert "'extra'" in found.messages[0]
    assert registry.requests[-1].path == "/compatibility/subjects/t-value/versions/latest?verbose=true"
    with pytest.raises(SchemaIncompatible, match="'extra' has no default") as raised:
        client.register("t-value", Definition(TEXT))
    assert (raised.value.status, raised.value.code) == (409, 409)


def test_what_is_no_schema_is_refused_with_the_registrys_reason(registry):
    registry.always = Fault(*refusal(422, 42201, "Invalid schema: unknown type 'lnog'"))
    with pytest.raises(SchemaRefused, match="unknown type 'lnog'"):
        a_client(registry.url).register("t", Definition("{}"))


def test_what_the_driver_has_asked_for_no_executor_asks_for(registry):
    old, new = registry.add("t-value", LONG), registry.add("t-value", TEXT)
    known = a_client(registry.url).known("t-value")
    assert known == {old: RegisteredSchema("AVRO", LONG), new: RegisteredSchema("AVRO", TEXT)}
    asked = len(registry.requests)
    executor = a_client(registry.url)
    executor.learn(known)
    assert (executor.schema(old).text, executor.schema(new).text) == (LONG, TEXT)
    assert len(registry.requests) == asked
    later = registry.add("t-value", '"string"')
    executor.schema(later)
    assert len(registry.requests) == asked + 1
    assert a_client(registry.url).known("none") == {}


def test_a_reason_names_the_version_that_began_a_change_and_asks_for_no_schema_of_it(registry):
    """Three versions cannot be read; a shared id has the place of one of its subjects."""
    ids = [registry.add("t-value", text) for text in (LONG, TEXT, '"string"', '"int"')]
    executor = a_client(registry.url)
    executor.learn(*known_places(registry, "t-value", 3))
    executor.schema(ids[3])
    asked = len(registry.requests)
    for _ in range(2):
        found = list(executor.versions_from(ids[3]))
        assert [version for version, _ in found] == [f"version {number} of t-value" for number in (4, 3, 2, 1)]
        assert [schema.text for _, schema in found] == ['"int"', '"string"', TEXT, LONG]
    assert registry.paths[asked:] == [f"/schemas/ids/{ids[3]}/versions"]


def known_places(registry, subject, most):
    client = a_client(registry.url)
    schemas = client.known(subject)
    first = dict(sorted(schemas.items())[:most])
    return first, {schema_id: client.place_of(schema_id) for schema_id in first}


@pytest.mark.parametrize(
    "answer",
    [
        Fault(404, b"no such page"),
        Fault(*refusal(403, 403)),
        Fault(200, b"[{}]"),
        Fault(200, b'[{"version":1}]'),
        Fault(200, b"{}"),
    ],
)
def test_a_registry_that_does_not_say_the_version_of_an_id_is_asked_once(registry, answer):
    schema_id = registry.add("t-value", LONG)
    client = a_client(registry.url)
    client.schema(schema_id)
    registry.always = answer
    asked = len(registry.requests)
    assert [list(client.versions_from(schema_id)) for _ in range(3)] == [[]] * 3
    assert len(registry.requests) == asked + 1


def test_a_process_has_one_client_of_the_same_options():
    options = RegistryOptions.of({"url": "http://127.0.0.1:1"})
    assert registry_of(options) is registry_of(RegistryOptions.of({"url": "http://127.0.0.1:1/"}))
    assert registry_of(options) is not registry_of(RegistryOptions.of({"url": "http://127.0.0.1:2"}))


@pytest.mark.parametrize(
    "answer",
    [
        (200, b""),
        (200, b"<html>sign in: geheim</html>"),
        (200, b"[" * 100_000),
        (200, b"[]"),
        (200, b'{"schema":7}'),
        (200, b'{"schema":"\\ud800"}'),
        (200, b'{"schema":"x","references":5}'),
        (200, b'{"schema":"x","references":[{}]}'),
        (200, b'{"schema":"x","references":[{"name":"n","subject":"s","version":true}]}'),
        (204, b""),
        (501, b""),
        (400, b"geheim"),
    ],
)
def test_an_answer_that_makes_no_sense_is_the_registrys_failure(registry, answer):
    registry.always = Fault(*answer)
    clock = Clock()
    with pytest.raises(RegistryError) as raised:
        a_client(registry.url, clock).schema(1)
    assert not isinstance(raised.value, (SchemaNotFound, RegistryUnavailable))
    assert "geheim" not in str(raised.value)
    assert (len(registry.requests), clock.slept) == (1, [])


def test_a_guid_is_asked_for_as_confluents_clients_do(registry):
    guid = UUID("98672554-653e-495d-a469-583517b1eabf")
    with pytest.raises(UnknownSchemaId, match=r"no schema by its GUID"):  # the record has named it: it is bad
        a_client(registry.url).schema(guid)
    registry.always = Fault(*json_answer(200, {"schema": LONG}))
    client = a_client(registry.url)
    assert client.schema(guid).text == client.schema(guid).text == LONG
    assert registry.paths == [f"/schemas/guids/{guid}"] * 2
    registry.always = Fault(*refusal(404, 40403))
    with pytest.raises(UnknownSchemaId):
        a_client(registry.url).schema(guid)
