"""Whatever a server answers, a client gives a schema or an error of a registry: nothing else, and no endless wait."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasource.errors import RegistryError, SchemaNotFound
from kafkasource.formats.registry.answers import is_retriable, json_of, retry_after_s
from kafkasource.formats.registry.definitions import definition_of, numbers_of, strings_of, subject_version_of
from kafkasource.formats.registry.references import resolved
from kafkasource.kafka.security.exchange import HttpAnswer

few = settings(max_examples=30)
URL = "http://registry:8081/subjects"
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
NAMES = st.sampled_from(
    ["schema", "schemaType", "references", "subject", "version", "id", "name", "error_code", "message"]
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6))
BODIES = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=50)


def error_of(call):
    """The registry's error that the call raises; None where it raises none. Other errors end the test."""
    try:
        call()
    except RegistryError as error:
        return error
    return None


@few
@given(status=st.sampled_from([200, 201, 204, 302, 400, 401, 403, 404, 409, 422, 501]), body=BODIES)
def test_any_answer_is_json_or_an_error_that_names_url_and_status(status, body):
    error = error_of(lambda: json_of(HttpAnswer(status, {}, body), "a question", URL))
    if error is None:
        assert status in (200, 201)
    else:
        assert URL in str(error)
        assert error.status == status
        assert str(error).isascii()
        assert len(str(error)) < 1500


@few
@given(status=st.sampled_from([200, 400, 401, 404, 409, 422]), body=BODIES)
def test_only_a_404_of_the_registrys_own_means_that_there_is_none(status, body):
    error = error_of(lambda: json_of(HttpAnswer(status, {}, body), "a question", URL))
    if isinstance(error, SchemaNotFound):
        assert (status, json.loads(body)["error_code"] // 100) == (404, 404)


@few
@given(answer=VALUES)
def test_any_json_is_a_schema_or_an_error(answer):
    for read in (definition_of, subject_version_of, numbers_of, strings_of):
        try:
            found = read(answer, "a question")
        except RegistryError:
            continue
        str(found).encode()


@few
@given(answer=VALUES)
def test_any_references_end(answer):
    """Each reference leads to the same schema again, with whatever references it has."""
    try:
        definition = definition_of({"schema": "x", "references": [answer]}, "a question")
    except RegistryError:
        return
    with pytest.raises(RegistryError, match="refers to itself"):
        resolved(definition, "x", lambda reference: definition)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "inf", "nan", "Wed, 21 Oct 2026 07:28:00 GMT", "\u00b2", "9" * 400])
def test_a_pause_that_is_no_number_of_seconds_counts_as_none(text):
    assert retry_after_s(HttpAnswer(429, {"retry-after": text}, b"")) == 0


def test_what_helps_to_ask_again():
    again = {status for status in range(200, 600) if is_retriable(status)}
    assert again == {408, 425, 429} | set(range(500, 600)) - {501, 505}
