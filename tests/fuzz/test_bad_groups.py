"""What the coordinator or other members of a group say, and cannot mean."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz_targets import TERMS

from kafkasource.errors import ProtocolError
from kafkasource.kafka.group.assignors import ASSIGNORS
from kafkasource.kafka.group.consumer_protocol import Subscription
from kafkasource.kafka.group.membership import Membership
from kafkasource.types import TopicPartition

JOINED = {"leader": "me", "member_id": "me", "generation_id": 1, "skip_assignment": False}


def leader(protocol_name: str, subscriptions: dict[str, bytes]) -> Membership:
    membership = Membership(TERMS, 0)
    membership.tick(0)
    rows = [{"member_id": name, "group_instance_id": None, "metadata": raw} for name, raw in subscriptions.items()]
    membership.joined({**JOINED, "protocol_name": protocol_name, "members": rows}, 1)
    return membership


def test_an_assignor_that_nobody_named_is_refused() -> None:
    membership = leader("sticky", {"me": Subscription(("t",)).encode()})
    with pytest.raises(ProtocolError, match="'sticky'"):
        membership.assignments({"t": 1})


@pytest.mark.parametrize("claims", [[("t", -1)], [("t", 9)], [("v", 0)], [("t", 0), ("t", 0)]], ids=str)
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_claims_to_what_does_not_exist_are_not_granted(assignor: str, claims: Any) -> None:
    owned = tuple(TopicPartition(*claim) for claim in claims)
    said = {name: Subscription(("t",), None, owned, 7).encode() for name in ("me", "you")}
    placed = leader(assignor, said).assignments({"t": 2})
    given = [tp for assignment in placed.values() for tp in assignment.partitions]
    assert len(given) == len(set(given))
    assert set(given) <= {TopicPartition("t", 0), TopicPartition("t", 1)}


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff\xff", bytes.fromhex("0000ffffffff"), bytes.fromhex("00007fffffff")])
def test_a_member_whose_subscription_is_none_is_named(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="member 'you' of the group"):
        leader("range", {"me": Subscription(("t",)).encode(), "you": raw})
