"""The decision record as text: what is written is what is read, within the limit, and nothing else is taken."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.exactly_once.decision import MAX_METADATA_BYTES, Decision, last_decision
from kafkasource.exactly_once.errors import TooManyTransactions, UnreadableDecision
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.types import TopicPartition

QUERY = "6f0c2f5e-8a53-4a9c-b7a2-0123456789ab"
PLACES = [TopicPartition("t", number) for number in range(40)]

transactions = st.lists(
    st.builds(
        WrittenTransaction,
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**15 - 1),
        st.integers(1, 2**63 - 1),
        st.integers(0, 2**64 - 1),
    ),
    max_size=1000,
    unique_by=lambda transaction: transaction.slot,
).map(lambda found: tuple(sorted(found, key=lambda transaction: transaction.slot)))
decisions = st.builds(
    Decision,
    st.integers(1, 2**40),
    st.just(QUERY),
    st.integers(0, 2**40),
    st.sampled_from([1, 2]),
    transactions,
    st.sampled_from(["stream", "write"]),
    st.integers(0, 10**18 - 1),
    st.integers(0, 2**64 - 1),
)


def ordinary(count, number=1):
    """As brokers hand them out: ids of one block, low epochs."""
    return Decision(
        number,
        QUERY,
        7,
        2,
        tuple(WrittenTransaction(i, 4000 + i % 64, 3 + i % 5, 25_000 + i, (i << 54) + 1) for i in range(count)),
        rows=25_000 * count,
        content=0xC0FFEE,
    )


@given(decisions)
def test_what_is_decided_is_what_is_read(decision):
    committed = decision.placed(PLACES)
    assert last_decision(committed) == decision
    assert all(len(text.encode()) <= MAX_METADATA_BYTES for _, text in committed.values())
    assert {offset for offset, _ in committed.values()} == {decision.batch_id}


@given(decisions, decisions)
def test_the_highest_number_is_the_last_decision_wherever_earlier_ones_still_lie(earlier, later):
    later = Decision(earlier.number + 1, later.query_id, later.batch_id, later.transaction_version, later.transactions)
    assert last_decision({**earlier.placed(PLACES), **later.placed(PLACES)}) == later


def test_a_group_without_offsets_has_decided_nothing():
    assert last_decision({}) is None


def test_one_partition_holds_some_200_transactions():
    assert len(ordinary(200).parts()) == 1
    assert len(ordinary(250).parts()) == 2
    assert len(ordinary(200).parts()[0]) > 3500


def test_more_transactions_than_there_is_room_for_are_refused_before_anything_is_decided():
    ordinary(250).placed(PLACES[:2])
    with pytest.raises(TooManyTransactions, match=r"250 tasks wrote; .* needs 2 partitions .* have 1 in use"):
        ordinary(250).placed(PLACES[:1])


def test_an_operator_can_read_the_head():
    text = ordinary(3).parts()[0]
    assert text.startswith(
        f"kafkasource/1 number=1 kind=stream query={QUERY} batch=7 rows=75000 content=0000000000c0ffee tv=2 part=0/1 "
        "transactions=3 "
    )


def test_rows_and_content_are_those_of_the_whole_batch_whatever_its_transactions_have():
    whole = replace(ordinary(0), rows=12)
    (text,) = whole.parts()
    assert text.endswith("rows=12 content=0000000000c0ffee tv=2 part=0/1 transactions=0 ")
    assert last_decision({PLACES[0]: (7, text)}) == whole


def test_where_a_record_was_found_is_known_and_is_no_part_of_it():
    placed = ordinary(2).placed([TopicPartition("u", 0), TopicPartition("a", 1)])
    older = replace(ordinary(1), number=0).placed([TopicPartition("z", 0)])
    found = last_decision(placed | older)
    assert (found, found.topics) == (ordinary(2), ("a", "u"))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_record_with_a_part_missing_is_not_taken(missing):
    committed = ordinary(800).placed(PLACES)
    del committed[PLACES[missing]]
    with pytest.raises(UnreadableDecision, match="not whole"):
        last_decision(committed)


def test_text_cut_short_or_of_others_is_not_taken():
    offset, text = ordinary(2).placed(PLACES)[PLACES[0]]
    packed = base64.b85decode(text.rsplit(" ", 1)[1])
    head = text.rsplit(" ", 1)[0] + " "
    wrong = [text[:cut] for cut in range(len(text))]
    wrong += [head + base64.b85encode(packed + b"\0").decode(), head.replace("ions=2", "ions=3") + text[len(head) :]]
    wrong += [text.replace("kafkasource/1", "kafkasource/2"), text.replace("content=", "content=0")]
    wrong += [
        text.replace(" kind=stream", ""),
        text.replace("kind=stream", "kind=other"),
        text.replace("tv=2", "tv=3"),
        text + "\n",
        "hello",
    ]
    for each in wrong:
        with pytest.raises(UnreadableDecision):
            last_decision({PLACES[0]: (offset, each)})
    with pytest.raises(UnreadableDecision):
        last_decision({PLACES[0]: (offset + 1, text)})  # offsets reset by hand


def test_a_prefix_that_begins_like_ours_is_not_ours():
    ids = TransactionalIds("a")
    assert (ids.driver, ids.task(3), ids.marker_group) == ("a-driver", "a-3", "a-marker")
    assert ids.slot("a-3") == 3
    assert [ids.slot(other) for other in ("a-b-3", "a-driver", "a-03", "a-3-1", "a-", "aa-3", "a-\u0663")] == [None] * 7
    assert TransactionalIds("a.c").slot("abc-3") is None
