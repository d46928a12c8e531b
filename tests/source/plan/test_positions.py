"""Where a read starts and ends. Expected texts are the key phrases of the JVM connector's errors."""

import pytest

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.source.plan.offsets import EARLIEST, LATEST
from kafkasource.source.plan.positions import (
    AtCommitted,
    check_start_before_end,
    ending_position,
    parse_offsets,
    starting_position,
)
from kafkasource.types import TopicPartition as TP

T0, T1, U0 = TP("t", 0), TP("t", 1), TP("u", 0)


def parse(text):
    return parse_offsets("startingOffsets", text)


def parsed(**given):
    given = {key.replace("__", "."): value for key, value in given.items()}
    return options.parse({"kafka.bootstrap.servers": "b:1", **given}, "source")


def start(streaming=False, **given):
    return starting_position(parsed(**given), streaming=streaming)


def end(streaming=False, **given):
    return ending_position(parsed(**given), streaming=streaming)


class Answers:
    """An OffsetReader with a log of 10 records in each partition, one at every 100 ms: offset 3 at 300 ms."""

    def __init__(self, committed=None, without=()):
        self.group_offsets = committed or {}
        self.without = set(without)  # deleted meanwhile
        self.asked = []

    def list_offsets(self, symbols):
        self.asked.append(dict(symbols))
        return {tp: 2 if symbol == EARLIEST else 10 for tp, symbol in symbols.items() if tp not in self.without}

    def offsets_for_times(self, times):
        found = {tp: -(-ms // 100) for tp, ms in times.items() if tp not in self.without}
        return {tp: offset if offset < 10 else None for tp, offset in found.items()}

    def committed(self, group, partitions):
        assert group == "g"
        return {tp: self.group_offsets.get(tp) for tp in partitions}


@pytest.mark.parametrize("text", ["earliest", "EARLIEST", " Earliest "])
def test_words_are_case_insensitive(text):
    assert parse(text).of([T0]) == {T0: EARLIEST}


def test_offsets_are_taken_per_partition():
    assert parse('{"t":{"0":23,"1":-1},"u":{"00":-2}}').of([T0, T1, U0]) == {T0: 23, T1: LATEST, U0: EARLIEST}


def test_a_topic_may_have_one_word_for_all_its_partitions():
    assert parse('{"t":"earliest","u":{"0":5}}').of([T0, T1, U0]) == {T0: EARLIEST, T1: EARLIEST, U0: 5}


@pytest.mark.parametrize("word", ["earliest", "latest"])
def test_one_word_may_stand_for_all_that_is_not_named(word):
    position = parse(f'{{"t":{{"0":23}},"*":"{word}"}}')
    assert position.of([T0, T1, U0]) == {T0: 23, T1: parse(word).of([T1])[T1], U0: parse(word).of([U0])[U0]}
    assert position.covered([T0, T1, U0]) == {T0, T1, U0}
    with pytest.raises(OptionError, match=r"Specified: \{t-0\} Assigned: \{u-0\}"):
        position.of([U0])


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "{}",
        "[]",
        "3",
        '{"t"}',
        '{"t":3}',
        '{"t":{"0":"a"}}',
        '{"t":{"0":1.0}}',
        '{"t":{"0":true}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{"-1":3}}',
        '{"t":{"0":1,"00":2}}',
        '{"t":{"0":1},"t":{"1":2}}',
        '{"t":"soon"}',
        '{"*":{"0":3}}',
        '{"*":3}',
    ],
)
def test_malformed_offsets_name_option_value_and_an_example(text):
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert "'startingOffsets'" in str(caught.value)
    assert 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}' in str(caught.value)
    assert f"got {text}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("beginning", "Did you mean earliest?"),
        ("End", "Did you mean latest?"),
        ('{"t":{"0":1}', "It is not JSON at character 13: Expecting ',' delimiter"),
        ("{'t':{'0':1}}", "It is not JSON at character 2: Expecting property name enclosed in double quotes"),
        ("soon", "got soon"),
    ],
)
def test_a_word_of_other_clients_and_broken_json_get_a_hint(text, hint):
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert str(caught.value).endswith(hint)


@pytest.mark.parametrize("text", ["soon", "5", '{"t":5}', '{"t":{"0":-3}}', '{"t":"latest"}', '{"t":{"0":1.5}}', "{}"])
@pytest.mark.parametrize("option", ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
def test_malformed_timestamps_name_option_value_and_an_example(option, text):
    with pytest.raises(OptionError) as caught:
        (start if option.startswith("starting") else end)(**{option: text})
    assert f'\'{option}\': Expected e.g. {{"topicA": {{"0": 123456789, ' in str(caught.value)
    assert str(caught.value).endswith(f"got {text}")


def test_timestamps_that_are_not_json_say_where():
    with pytest.raises(OptionError, match=r"It is not JSON at character 6: Expecting ':' delimiter$"):
        start(startingOffsetsByTimestamp='{"t" {"0":1}}')


@pytest.mark.parametrize("text", ['{"t":{"0":1}}', '{"t":{"0":1,"1":1,"2":1}}', '{"t":{"0":1,"1":1},"v":"latest"}'])
def test_every_assigned_partition_and_no_other_must_be_named(text):
    with pytest.raises(
        OptionError, match=r"you must specify all TopicPartitions.*Specified: .* Assigned: \{t-0, t-1\}"
    ):
        parse(text).of([T0, T1])


def test_every_assigned_partition_must_have_its_timestamp():
    position = start(startingOffsetsByTimestamp='{"t":{"0":100}}')
    with pytest.raises(
        OptionError,
        match=r"KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED.*Specified: \{t-0\} Assigned: \{t-0, t-1\}",
    ):
        position.resolve([T0, T1], Answers())


def test_only_symbolic_offsets_are_asked_for():
    answers = Answers()
    resolved = parse('{"t":{"0":23,"1":-2},"u":{"0":-1}}').resolve([T0, T1, U0], answers)
    assert answers.asked == [{T1: EARLIEST, U0: LATEST}]
    assert resolved == {T0: 23, T1: 2, U0: 10}


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"startingTimestamp": "300"},
        {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_a_partition_that_vanished_while_asked_is_left_out(given):
    assert start(streaming=True, **given).resolve([T0, T1], Answers(without=[T1])).keys() == {T0}


def test_a_stream_starts_at_latest_and_a_batch_reads_everything_by_default():
    assert start(streaming=True).symbols([T0]) == {T0: LATEST}
    assert start().symbols([T0]) == {T0: EARLIEST}
    assert end().symbols([T0]) == {T0: LATEST}
    assert end(streaming=True) is None


def test_symbols_are_those_partitions_that_were_given_a_word():
    assert parse('{"t":{"0":23,"1":-1},"u":"earliest"}').symbols([T0, T1, U0]) == {T1: LATEST, U0: EARLIEST}
    assert start(startingTimestamp="5").symbols([T0]) == {}


BY_TIME = '{"t":{"0":300,"1":400}}'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": '{"t":{"0":1,"1":2}}'}, {T0: 1, T1: 2}),
        ({"startingOffsetsByTimestamp": BY_TIME}, {T0: 3, T1: 4}),
        ({"startingOffsetsByTimestamp": BY_TIME, "startingOffsets": "soon"}, {T0: 3, T1: 4}),
        ({"startingTimestamp": "501"}, {T0: 6, T1: 6}),
        ({"startingTimestamp": "501", "startingOffsetsByTimestamp": BY_TIME}, {T0: 6, T1: 6}),
    ],
)
@pytest.mark.parametrize("which", ["starting", "ending"])
def test_a_timestamp_for_all_goes_before_one_for_each_and_that_before_offsets(which, given, expected):
    given = {key.replace("starting", which): value for key, value in given.items()}
    position = (start if which == "starting" else end)(**given)
    assert position.resolve([T0, T1], Answers()) == expected


@pytest.mark.parametrize(
    ("given", "stamp"),
    [({"startingTimestamp": "901"}, 901), ({"startingOffsetsByTimestamp": '{"t":{"0":300,"1":5000}}'}, 5000)],
)
def test_a_start_after_the_last_record_is_an_error_or_latest_as_the_strategy_says(given, stamp):
    says = f"No offset matched from request of topic-partition t-[01] and timestamp {stamp}.*to latest"
    with pytest.raises(OptionError, match=says):
        start(**given).resolve([T0, T1], Answers())
    position = start(startingOffsetsByTimestampStrategy="latest", **given)
    assert position.resolve([T0, T1], Answers())[T1] == 10


class AnswersWhileRecordsCome(Answers):
    """Records 10 and 11, of 1000 ms and 1100 ms, come between the question by time and the listing of ends."""

    end = 10

    def list_offsets(self, symbols):
        self.end = 12
        return dict.fromkeys(symbols, self.end)

    def offsets_for_times(self, times):
        found = {tp: -(-ms // 100) for tp, ms in times.items()}
        return {tp: offset if offset < self.end else None for tp, offset in found.items()}


@pytest.mark.parametrize(("stamp", "expected"), [("1000", 10), ("1050", 11), ("1101", 12)])
def test_a_record_of_that_time_that_comes_while_the_position_is_found_is_behind_it(stamp, expected):
    position = start(streaming=True, startingTimestamp=stamp, startingOffsetsByTimestampStrategy="latest")
    assert position.resolve([T0, T1], AnswersWhileRecordsCome()) == {T0: expected, T1: expected}
    assert end(endingTimestamp=stamp).resolve([T0], AnswersWhileRecordsCome()) == {T0: expected}


def test_an_end_after_the_last_record_is_latest_whatever_the_strategy():
    given = {"startingOffsetsByTimestampStrategy": "error"}
    assert end(endingTimestamp="901", **given).resolve([T0], Answers()) == {T0: 10}
    assert end(endingOffsetsByTimestamp='{"t":{"0":5000}}', **given).resolve([T0], Answers()) == {T0: 10}


@pytest.mark.parametrize(
    ("text", "expected"), [("committed", None), ("Committed:Earliest", 2), ("committed:latest", 10)]
)
@pytest.mark.parametrize("streaming", [True, False])
def test_a_read_starts_where_the_group_stands(text, expected, streaming):
    position = start(streaming, startingOffsets=text, kafka__group__id="g")
    assert position.resolve([T0, T1], Answers({T0: 7, T1: 0})) == {T0: 7, T1: 0}
    if expected is None:
        with pytest.raises(OptionError, match=r"group 'g' has no committed offset for \{t-1\}.*committed:earliest"):
            position.resolve([T0, T1], Answers({T0: 7}))
    else:
        assert position.resolve([T0, T1], Answers({T0: 7})) == {T0: 7, T1: expected}


def test_committed_needs_a_group():
    with pytest.raises(OptionError, match=r"'startingOffsets' is committed: set 'kafka\.group\.id'"):
        start(startingOffsets="committed")


def test_committed_is_no_end():
    with pytest.raises(OptionError, match=r"'endingOffsets'.*got committed"):
        end(endingOffsets="committed", kafka__group__id="g")


@pytest.mark.parametrize(
    ("position", "offsets"),
    [
        (parse("earliest"), {T0: EARLIEST, T1: EARLIEST, U0: EARLIEST}),
        (parse('{"t":"latest","u":{"0":5,"9":1}}'), {T0: LATEST, T1: LATEST, U0: 5}),
        (parse('{"t":{"0":-1}}'), {T0: LATEST}),
        (AtCommitted("startingOffsets", "g"), {}),
        (start(startingTimestamp="1"), {}),
    ],
)
def test_what_an_option_gives_to_partitions_is_told_also_where_it_speaks_of_others(position, offsets):
    assert position.written([T0, T1, U0]) == offsets


@pytest.mark.parametrize(
    ("end_of", "text", "message"),
    [
        (start, "latest", "starting offset can't be latest for batch queries on Kafka"),
        (start, '{"t":{"0":-1}}', "startingOffsets for t-0 can't be latest"),
        (start, '{"t":"latest"}', "startingOffsets for t can't be latest"),
        (start, '{"t":{"0":1},"*":"latest"}', "starting offset can't be latest"),
        (end, "earliest", "ending offset can't be earliest for batch queries on Kafka"),
        (end, '{"t":{"0":-2}}', "endingOffsets for t-0 can't be earliest"),
    ],
)
def test_a_batch_that_could_only_be_empty_is_refused(end_of, text, message):
    with pytest.raises(OptionError, match=message):
        end_of(startingOffsets=text, endingOffsets=text)


MISMATCHED = r"MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET.*\{t-0\}.*\{t-1\}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":0}}'},
            "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET.*"
            "start offset 1 is greater than the end offset 0 for topic t partition 0",
        ),
        ({"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"1":2}}'}, MISMATCHED),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":2}}', "endingOffsetsByTimestamp": '{"t":{"0":1}}'},
            "start timestamp 2 is greater than the end timestamp 1 for topic t partition 0",
        ),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1}}', "endingOffsetsByTimestamp": '{"t":{"1":2}}'}, MISMATCHED),
        (
            {"startingTimestamp": "2", "endingOffsetsByTimestamp": '{"t":{"0":1}}'},
            "start timestamp 2 is greater than the end timestamp 1 for topic t partition 0",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":2}}', "endingTimestamp": "1"},
            "start timestamp 2 is greater than the end timestamp 1 for topic t partition 0",
        ),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "start timestamp 2 is greater than the end timestamp 1"),
    ],
)
def test_contradicting_start_and_end_are_seen_before_a_broker_is_asked(given, message):
    with pytest.raises(OptionError, match=message):
        check_start_before_end(start(**given), end(**given))


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":-1}}'},
        {"startingOffsets": '{"t":{"0":5}}', "endingTimestamp": "1"},
        {"startingOffsets": '{"t":{"0":5},"*":"earliest"}', "endingOffsets": '{"t":{"0":7},"u":{"0":1}}'},
        {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"*":"latest"}'},
        {"startingTimestamp": "2", "endingOffsets": '{"t":{"0":1}}'},
        {"startingTimestamp": "2", "endingTimestamp": "2"},
        {"startingTimestamp": "2", "endingTimestamp": "-1"},  # latest
        {"startingOffsets": "committed", "endingOffsets": '{"t":{"0":1}}', "kafka__group__id": "g"},
    ],
)
def test_what_only_brokers_can_compare_contradicts_nothing(given):
    check_start_before_end(start(**given), end(**given))


@pytest.mark.parametrize(
    ("position", "covered"),
    [
        (end(endingOffsets="latest"), {T0, T1, U0}),
        (end(endingOffsets='{"t":{"1":5}}'), {T1}),
        (end(endingOffsets='{"t":"latest"}'), {T0, T1}),
        (end(endingTimestamp="5"), {T0, T1, U0}),
        (end(endingOffsetsByTimestamp='{"u":{"0":5,"7":5}}'), {U0}),
    ],
)
def test_the_partitions_that_an_option_speaks_of_are_told(position, covered):
    assert position.covered([T0, T1, U0]) == covered
