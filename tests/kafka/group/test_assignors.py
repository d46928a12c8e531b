"""Placements against those of Kafka's own assignors, and what every placement must keep to."""

import random
from dataclasses import dataclass

import pytest
from group_wire import ask_kafka, assign_command, assign_near_command, member, placement_text, tps
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.errors import OptionError
from kafkasource.kafka.group.assignors import ASSIGNORS, assignors_named
from kafkasource.kafka.group.sticky import generation_data, hash_map_order
from kafkasource.types import TopicPartition

STICKY = ASSIGNORS["cooperative-sticky"]


@dataclass
class Case:
    name: str
    counts: dict
    members: dict

    @property
    def all_read_the_same(self):
        return len({frozenset(each.subscription.topics) for each in self.members.values()}) == 1

    def place(self):
        return ASSIGNORS[self.name].assign(self.counts, self.members)


def group(rnd, alike, topics):
    """A few members with ids as brokers make them, some of them static."""

    def name():
        return f"client-{rnd.getrandbits(64):016x}"

    def reads():
        return topics if alike else rnd.sample(topics, rnd.randint(1, len(topics)))

    size = rnd.randint(1, 30 if rnd.random() < 0.1 else 6)
    return {name(): member(reads(), instance_id=name() if rnd.random() < 0.2 else None) for _ in range(size)}


def existing(counts, members):
    read = {topic for each in members.values() for topic in each.subscription.topics}
    return {topic: count for topic, count in counts.items() if topic in read}


def rebalanced(rnd, case, alike):
    """The same group after some left, others came, topics grew, and somebody claims what is another's."""
    topics = sorted(case.counts)
    placed = case.place()
    stay = {
        name: member(each.subscription.topics, placed[name], rnd.choice([4, 4, 4, 5]), each.instance_id)
        for name, each in case.members.items()
        if rnd.random() < 0.8
    }
    if alike and len(stay) > 1 and rnd.random() < 0.3:
        first, second = rnd.sample(sorted(stay), 2)
        one, other = stay[first].subscription, stay[second].subscription
        stay[first] = member(
            one.topics, dict.fromkeys([*one.owned_partitions, *other.owned_partitions[:1]]), one.generation_id
        )
    members = {**stay, **group(rnd, alike, topics)}
    counts = {topic: count + rnd.choice([0, 0, 0, 2]) for topic, count in case.counts.items()}
    return Case(case.name, existing(counts, members), members)


def random_cases(seed, count):
    rnd = random.Random(seed)
    for _ in range(count):
        topics = [f"t{i}" for i in range(rnd.randint(1, 4))]
        alike = rnd.random() < 0.6
        members = group(rnd, alike, topics)
        case = Case(
            rnd.choice(sorted(ASSIGNORS)), existing({each: rnd.randint(1, 9) for each in topics}, members), members
        )
        yield case
        if case.name == STICKY.name:
            yield rebalanced(rnd, case, alike)


@pytest.mark.slow
@pytest.mark.peers
def test_placements_are_those_of_kafkas_own_assignors():
    cases = list(random_cases(seed=7, count=2_000))
    theirs = ask_kafka([assign_command(case.name, case.counts, case.members) for case in cases])
    compared = 0
    for case, answer in zip(cases, theirs, strict=True):
        if case.name != STICKY.name or case.all_read_the_same:
            assert placement_text(case.place()) == answer, case
            compared += 1
    assert compared > 1_500


def in_racks(rnd, case):
    """The case with members and replicas in racks, some of neither; equal numbers of partitions now and then."""
    racks = ["a", "b", "c"][: rnd.randint(1, 3)]
    counts = dict.fromkeys(case.counts, min(case.counts.values())) if rnd.random() < 0.3 else case.counts
    told = rnd.choice([1, 1, 0.7, 0.3])
    members = {
        name: member(
            each.subscription.topics,
            [tp for tp in each.subscription.owned_partitions if tp.partition < counts[tp.topic]],
            each.subscription.generation_id,
            each.instance_id,
            rack=rnd.choice(racks) if rnd.random() < told else None,
        )
        for name, each in case.members.items()
    }
    replicas = {
        TopicPartition(topic, n): frozenset(rnd.sample([*racks, "d"], rnd.randint(0, 2)))
        for topic, count in counts.items()
        for n in range(count)
    }
    return Case(case.name, counts, members), replicas


@pytest.mark.slow
@pytest.mark.peers
def test_among_racks_too_placements_are_those_of_kafkas_own_assignors():
    rnd = random.Random(11)
    cases = [in_racks(rnd, case) for case in random_cases(seed=9, count=1_500)]
    cases = [(case, racks) for case, racks in cases if case.name != STICKY.name or case.all_read_the_same]
    theirs = ask_kafka([assign_near_command(case.name, case.counts, case.members, racks) for case, racks in cases])
    assert len(cases) > 1_000
    moved = 0
    for (case, racks), answer in zip(cases, theirs, strict=True):
        ours = placement_text(ASSIGNORS[case.name].assign(case.counts, case.members, racks))
        assert ours == answer, (case, racks)
        moved += ours != placement_text(case.place())
    assert moved > 300  # racks did matter


@pytest.mark.slow
@pytest.mark.peers
def test_where_members_read_different_topics_placements_are_nearly_always_kafkas():
    """And where not, as even; in a few cases Kafka, or we, let one partition more change hands."""
    cases = [case for case in random_cases(seed=8, count=3_000) if case.name == STICKY.name]
    cases = [case for case in cases if not case.all_read_the_same]
    theirs = ask_kafka([assign_command(case.name, case.counts, case.members) for case in cases])
    same = 0
    for case, answer in zip(cases, theirs, strict=True):
        java = {row.split("=")[0]: tps(row.split("=")[1]) for row in answer.split(" ")}
        ours = case.place()
        same += placement_text(ours) == answer
        assert abs(kept(case, ours) - kept(case, java)) <= 2, case
    assert len(cases) > 500
    assert same >= len(cases) * 99 // 100


def kept(case, placement):
    return sum(len(set(placement[m]) & set(each.subscription.owned_partitions)) for m, each in case.members.items())


@pytest.mark.slow
@pytest.mark.peers
def test_user_data_of_cooperative_sticky_is_kafkas():
    assert ask_kafka([["data", -1], ["data", 0], ["data", 70_000]]) == [
        generation_data(generation).hex() for generation in (None, 0, 70_000)
    ]


@given(seed=st.integers(0, 2**32))
def test_every_partition_goes_to_one_reader_or_waits_for_its_owner(seed):
    for case in random_cases(seed, 3):
        placement = case.place()
        assert placement.keys() == case.members.keys()
        given_out = [tp for each in placement.values() for tp in each]
        assert len(given_out) == len(set(given_out))
        for name, each in placement.items():
            assert {tp.topic for tp in each} <= set(case.members[name].subscription.topics)
        everything = {TopicPartition(topic, n) for topic, count in case.counts.items() for n in range(count)}
        owned = {tp for each in case.members.values() for tp in each.subscription.owned_partitions}
        waiting = everything - set(given_out)
        assert waiting <= owned if case.name == STICKY.name else not waiting


@given(seed=st.integers(0, 2**32))
def test_after_a_second_rebalance_nothing_waits_and_nothing_moves(seed):
    for case in random_cases(seed, 2):
        if case.name == STICKY.name:
            rounds = [case.place()]
            for generation in (10, 11, 12):
                owners = {
                    name: member(each.subscription.topics, rounds[-1][name], generation, each.instance_id)
                    for name, each in case.members.items()
                }
                rounds.append(STICKY.assign(case.counts, owners))
            settled = [{name: sorted(each) for name, each in one.items()} for one in rounds]
            assert settled[-1] == settled[-2]
            assert sum(map(len, settled[-1].values())) == sum(case.counts.values())


def test_a_partition_that_changes_hands_is_nobodys_until_it_was_given_up():
    members = {"old": member(["t"], tps("t:0,t:1,t:2,t:3"), 1), "new": member(["t"])}
    assert STICKY.assign({"t": 4}, members) == {"old": list(tps("t:0,t:1")), "new": []}
    members["old"] = member(["t"], tps("t:0,t:1"), 2)
    assert STICKY.assign({"t": 4}, members) == {"old": list(tps("t:0,t:1")), "new": list(tps("t:2,t:3"))}


def test_of_two_claims_to_a_partition_the_newer_generation_is_right():
    members = {"late": member(["t"], tps("t:0"), 3), "now": member(["t"], tps("t:0"), 5)}
    assert STICKY.assign({"t": 2}, members) == {"now": list(tps("t:0")), "late": list(tps("t:1"))}


def test_a_generation_in_the_user_data_counts_where_the_subscription_is_an_old_one():
    members = {
        "now": member(["t"], tps("t:0"), user_data=generation_data(5)),
        "late": member(["t"], tps("t:0"), user_data=generation_data(3)),
    }
    assert STICKY.assign({"t": 2}, members)["now"] == list(tps("t:0"))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_a_topic_that_does_not_exist_is_nobodys(name):
    assert ASSIGNORS[name].assign({"t": 1}, {"a": member(["t", "gone"])}) == {"a": [TopicPartition("t", 0)]}
    assert ASSIGNORS[name].assign({}, {"a": member(["gone"]), "b": member([])}) == {"a": [], "b": []}


def test_the_order_of_keys_is_java_hash_maps():
    # new HashMap<>() with these keys put in this order, as jshell prints its keySet().
    keys = ["consumer-1-x", "consumer-2-y", "Aa", "BB", "z9", "q"]
    assert hash_map_order(keys) == ["Aa", "BB", "q", "consumer-2-y", "consumer-1-x", "z9"]


def test_assignors_are_chosen_by_the_names_that_kafka_gives_them():
    assert [each.name for each in assignors_named(["range", "cooperative-sticky"])] == ["range", "cooperative-sticky"]
    for wrong in (["sticky"], []):
        with pytest.raises(OptionError, match="choose from range, roundrobin, cooperative-sticky"):
            assignors_named(wrong)
