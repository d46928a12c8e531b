"""How a budget is divided among the parts that are in use."""

from itertools import product

import pytest

from kafkasource.kafka.memory.shares import ACCUMULATOR, DECODED, PARTS, RECEIVE, divide

MIB = 1 << 20
NAMES = (RECEIVE, DECODED, ACCUMULATOR)


@pytest.mark.parametrize(
    ("used", "mib"),
    [
        ((), {}),
        ((RECEIVE, DECODED), {RECEIVE: 32, DECODED: 32}),  # a task that reads
        ((ACCUMULATOR,), {ACCUMULATOR: 32}),  # that writes: half, the publish limit
        (NAMES, dict.fromkeys(NAMES, 21)),  # nobody lends
    ],
)
def test_parts_in_use_have_their_own_and_what_the_others_lend(used, mib):
    shares = divide(64 * MIB, dict.fromkeys(used, 1))
    assert {name: size // MIB for name, size in shares.items()} == mib


@pytest.mark.parametrize("total", [4 * MIB, 100_000_007])
def test_whoever_is_at_work_they_never_have_more_than_the_budget_and_publish_at_most_half(total):
    for counts in product((0, 1, 3), repeat=3):
        shares = divide(total, dict(zip(NAMES, counts, strict=True)))
        assert sum(shares.values()) <= total
        assert shares.get(ACCUMULATOR, 0) <= total // 2
        assert set(shares) == {name for name, count in zip(NAMES, counts, strict=True) if count}
        assert all(shares[one.name] >= total * one.ratio // 2 for one in PARTS if one.name in shares)


def test_the_parts_are_the_whole():
    assert sum(one.ratio for one in PARTS) == 1
