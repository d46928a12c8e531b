"""The table of parity without a broker: it can fail, and the documentation says what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity import SAME, Batch, Seen, Stream, better, fails, judge, markdown_table, option, reads, same
from parity_cases import CASES, READS, WRITES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_documentation_is_rendered_from_the_cases():
    """`make readme` renews it."""
    reads, writes = ((DOCS / name).read_text() for name in ("jvm-connector.md", "jvm-connector-writes.md"))
    assert f"<!-- parity -->\n{markdown_table(READS)}\n<!-- end -->" in reads
    assert f"<!-- parity-writes -->\n{markdown_table(WRITES)}\n<!-- end -->" in writes


def test_no_case_stands_twice():
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict != SAME], ids=lambda case: case.id)
def test_a_claimed_difference_is_asserted_on_both_sides_and_has_a_reason(case):
    assert case.verdict.why.endswith(".")
    assert any(read.expected("kafka") != read.expected("pykafka") for read in case.reads)


ROW = ("numbers", 0, 0, b"k", b"v", 0, 0)
(CLAIMS_SAME,) = option("o", same("w", Stream({}, reads(1))))
(CLAIMS_FAILURE,) = option("o", same("w", Batch({}, fails("phrase"))))
(CLAIMS_BETTER,) = option("o", better("w", "Why.", Stream({}, theirs=reads(0), ours=reads(1, batches=[1]))))


@pytest.mark.parametrize(
    ("case", "theirs", "ours", "wrong"),
    [
        (CLAIMS_SAME, Seen(rows=[ROW]), Seen(rows=[ROW]), 0),
        (CLAIMS_SAME, Seen(rows=[ROW]), Seen(rows=[(*ROW[:4], b"other", 0, 0)]), 1),
        (CLAIMS_SAME, Seen(rows=[ROW], batches=[1]), Seen(rows=[ROW], batches=[]), 1),
        (
            CLAIMS_SAME,
            Seen(rows=[ROW], ends=[{"numbers": {"0": 1}}]),
            Seen(rows=[ROW], ends=[{"numbers": {"0": 2}}]),
            1,
        ),
        (CLAIMS_SAME, Seen(rows=[ROW], columns=[("key", "binary")]), Seen(rows=[ROW]), 1),
        (CLAIMS_SAME, Seen(rows=[ROW]), Seen(error="phrase"), 2),
        (CLAIMS_SAME, Seen(), Seen(), 2),
        (CLAIMS_FAILURE, Seen(error="a phrase"), Seen(error="the phrase is there"), 0),
        (CLAIMS_FAILURE, Seen(error="a phrase"), Seen(error="other words"), 1),
        (CLAIMS_FAILURE, Seen(error="a phrase"), Seen(rows=[ROW]), 1),
        (CLAIMS_BETTER, Seen(), Seen(rows=[ROW], batches=[1]), 0),
        (CLAIMS_BETTER, Seen(), Seen(), 2),
        (CLAIMS_BETTER, Seen(rows=[ROW], batches=[1]), Seen(rows=[ROW], batches=[1]), 1),
    ],
)
def test_what_is_not_as_claimed_is_told(case, theirs, ours, wrong):
    assert len(judge(case, [theirs], [ours])) == wrong
