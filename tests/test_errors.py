"""The table of error codes is Kafka's own, and every error survives the way between processes."""

import pickle
from pathlib import Path

import pytest
from java_programs import ask_java

from kafkasource import errors
from kafkasource.errors import EXPLAINED, TABLE, BrokerError, KafkaSourceError, check, error_for, explained, refusal

NOT_AS_IN_KAFKA = {8}  # retried, as by librdkafka; its row says why
OF_BOOTSTRAP = {errors.BootstrapFailed, errors.BootstrapHopeless}
PROGRAM = Path(__file__).with_name("KafkaErrors.java")


def all_subclasses(cls):
    return {cls}.union(*(all_subclasses(sub) for sub in cls.__subclasses__()))


def kafkas_table(version):
    return [line.split("\t") for line in ask_java(PROGRAM, release=version)]


@pytest.mark.broker
def test_the_table_is_that_of_kafka_4_3_1():
    kafkas = {int(code): (name, *flags) for code, name, *flags in kafkas_table("4.3.1")}
    ours = {
        code: (row.name, str(row.retriable).lower(), str(row.refresh_metadata).lower()) for code, row in TABLE.items()
    }
    assert list(ours) == list(kafkas)
    assert {code for code in ours if ours[code] != kafkas[code]} == NOT_AS_IN_KAFKA
    assert [ours[8], kafkas[8]] == [("BROKER_NOT_AVAILABLE", flag, flag) for flag in ("true", "false")]


@pytest.mark.broker
def test_the_codes_of_kafka_0_9_mean_what_they_mean_today():
    """By their names then; 9 was of no interest to clients before they could read from followers (KIP-392)."""
    then = {
        "UNKNOWN": "UNKNOWN_SERVER_ERROR",
        "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
        "GROUP_LOAD_IN_PROGRESS": "COORDINATOR_LOAD_IN_PROGRESS",
        "GROUP_COORDINATOR_NOT_AVAILABLE": "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR_FOR_GROUP": "NOT_COORDINATOR",
    }
    kafkas = kafkas_table("0.9.0.1")
    assert len(kafkas) > 30
    for code, name, retriable, refresh in kafkas:
        row = TABLE[int(code)]
        assert row.name == then.get(name, name)
        if row.code not in {9, *NOT_AS_IN_KAFKA}:
            assert (str(row.retriable).lower(), str(row.refresh_metadata).lower()) == (retriable, refresh), name


def test_what_the_protocol_guide_calls_retriable_is_retried():
    """Codes -1 to 31, of Kafka 0.8 and 0.9."""
    ours = {code for code in range(-1, 32) if TABLE[code].retriable} - NOT_AS_IN_KAFKA
    assert ours - {9, 13} == {2, 3, 5, 6, 7, 14, 15, 16, 19, 20}  # 9: see above; 13 is none of the guide's
    assert all(TABLE[code].name for code in range(-1, 32))


def test_every_code_has_an_error_that_tells_what_it_means():
    for code, row in TABLE.items():
        error = error_for(code, "Fetch t-0")
        assert (error.code, error.retriable, error.refresh_metadata) == (code, row.retriable, row.refresh_metadata)
        entry = f" {explained(EXPLAINED[code])}" if code in EXPLAINED else ""
        assert str(error) == f"Fetch t-0: {row.name} ({code}): {row.doc}{entry}"
        assert row.doc.endswith(".") or ":" in row.doc


def test_named_classes_have_the_name_of_their_code():
    named = [cls for cls in all_subclasses(BrokerError) if cls.CODE and cls.__module__ == errors.__name__]
    assert len(named) > 30
    for cls in named:
        kafkas = TABLE[cls.CODE].name.removesuffix("_EXCEPTION").replace("_", "").lower()
        assert cls.__name__.lower() == kafkas
        assert type(error_for(cls.CODE)) is cls


def test_an_error_that_the_request_decides_to_retry_stays_so_with_another_context_and_in_another_process():
    for code in (-1, 3, 30, 9999):  # 30 has a constructor of its own
        for retriable in (True, False):
            error = error_for(code, "FindCoordinator", retriable=retriable)
            copies = [error, error.at("elsewhere"), pickle.loads(pickle.dumps(error))]
            assert [copy.retriable for copy in copies] == [retriable] * 3


def test_the_columns_that_name_a_meaning_have_these_codes():
    columns = {
        "refresh_coordinator": {14, 15, 16},
        "unknown": {-1},
        "no_such_topic": {3, 100},
        "refuses_record": {10, 18, 32, 87},
        "nothing_stored": {10, 18, 19, 32, 45, 51, 87},
        "fenced": {47, 49, 90},
        "transaction_gone": {47, 48, 49, 90},
    }
    assert columns == {name: {code for code, row in TABLE.items() if getattr(row, name)} for name in columns}
    assert error_for(9999).row.unknown


def test_a_code_newer_than_the_table_is_an_error_that_is_not_retried():
    error = error_for(9999, "Produce")
    assert type(error) is BrokerError
    assert not error.retriable
    assert "9999" in str(error)


def test_check_raises_for_every_code_but_zero():
    check(0, "fine")
    for code in TABLE:
        if code:
            with pytest.raises(BrokerError, match="about it"):
                check(code, "about it")


def test_every_error_pickles_with_what_it_says():
    samples = [error_for(code, "Fetch t-0") for code in [*TABLE, 9999]]
    attempts = (("a:1", "refused"), ("b:2", "no such host"))
    samples += [cls(attempts, 60_000) for cls in OF_BOOTSTRAP]
    plain = all_subclasses(KafkaSourceError) - all_subclasses(BrokerError) - OF_BOOTSTRAP
    samples += [cls(f"what happened to {cls.__name__}") for cls in plain if cls.__module__ == errors.__name__]
    for error in samples:
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))
        assert (copy.retriable, copy.refresh_metadata) == (error.retriable, error.refresh_metadata)


def test_no_text_of_an_error_drives_the_terminal_that_shows_it():
    evil, shown = "\x1b]0;owned\x07\u202e", r"\x1b]0;owned\x07\u202e"
    samples = [error_for(code, evil) for code in [*TABLE, 9999]]
    samples += [cls((("a:1", evil),), 60_000) for cls in OF_BOOTSTRAP]
    plain = all_subclasses(KafkaSourceError) - all_subclasses(BrokerError) - OF_BOOTSTRAP
    samples += [cls(evil) for cls in plain if cls.__module__ == errors.__name__]
    assert [error for error in samples if shown not in str(error) or evil in str(error)] == []


def test_a_refusal_says_of_the_api_which_right_to_grant_and_who_the_client_is_and_pickles_so():
    error = error_for(29, "topic 'CreateTopics'")
    plain = str(error).partition(" (docs/")[0]
    assert plain == f"topic 'CreateTopics': TOPIC_AUTHORIZATION_FAILED (29): {TABLE[29].doc}"  # a name is no API
    told = refusal(error, "DeleteTopics", "is logged in as 'alice'")
    assert told is error
    refusal(error, "Metadata", "is logged in as 'bob'")  # who knows first was nearest
    assert "grant Delete on it. This client is logged in as 'alice'. (docs/" in str(error)
    moved = pickle.loads(pickle.dumps(error.at("option 'topic'")))
    assert str(moved) == str(error).replace("topic 'CreateTopics'", "option 'topic'")
    assert (moved.api, moved.client) == ("DeleteTopics", "is logged in as 'alice'")
    assert type(error)(*error.args).args == error.args
    other = error_for(3, "t")
    assert str(refusal(other, "Metadata", "is logged in as 'alice'")) == str(error_for(3, "t"))


def test_one_root_and_the_errors_of_python_that_users_expect():
    assert all(issubclass(cls, KafkaSourceError) for cls in all_subclasses(BrokerError))
    assert issubclass(errors.OptionError, ValueError)
    assert issubclass(errors.CorruptRecordBatch, errors.ProtocolError)
