"""The skips that are no gap. Under CI, and in `make test` and `make extended`, any other skip fails the run.

A comparison with Kafka's own classes that skips because a JDK or a jar is missing proves nothing and looks green. So a
reason that is not in this table is an error there: install what is missing, or add a row that says why nothing is lost.
Elsewhere, `pytest` alone, tests skip as they like.
"""

from __future__ import annotations

import os
import re

ENVIRONMENT = "KAFKASOURCE_SKIPS"  # "fail": as under CI; "allow": not even there

# A pattern of the whole reason, and why nothing is lost.
ALLOWED = {
    # Rows of a parametrized test for which there is nothing to test.
    "dialect 2 raises the epoch": "it shows what dialect 1 does at an end asked again; dialect 1 runs it",
    "Produce v12 adds it": "dialect 2 has no such case; dialect 1 runs it",
    "TxnOffsetCommit v5 adds it": "dialect 2 has no such case; dialect 1 runs it",
    "the stable ABI has memoryviews from 3.11 on": "what is tested is that Python 3.10 refuses it",
    "0.9 lacks the same, and the others have it all": "the test runs for 0.8.2.2",
    "this release of Spark gives no filters": "the file runs on every later release; make floors runs Spark 4.0",
    # The interpreted kernel's run of the records tests (test_builds.py): the compiled one runs them, too.
    "the interpreted kernel is Python: it holds the GIL": "a promise of the compiled kernel",
    "this kernel computes no CRC32C: .*": "the interpreted kernel has none; on a processor without it nor has ours",
    # The releases of Spark that tests start beside their own.
    "the environment with this release of Spark is not here": "the test runs wherever the Makefile has made it",
    # The machine, or the cluster that somebody else has lent.
    "needs the package gssapi, which pip builds with krb5's headers": "the exchange runs with a library of the test's",
    "google-crc32c has no C implementation here": "the two other implementations are compared",
    "only root can .*": "root runs it: in our CI, and in a container",
    "needs the broker's files": "with KAFKA_BOOTSTRAP_SERVERS: a cluster of somebody else's",
    "an older cluster": "with KAFKA_BOOTSTRAP_SERVERS",
}


def fail_on_skips() -> bool:
    """Is a skip that is not in the table a failure in this run?"""
    word = os.environ.get(ENVIRONMENT, "")
    if word not in ("", "fail", "allow"):
        raise ValueError(f"{ENVIRONMENT} is fail or allow, not {word!r}")
    return word == "fail" or (word == "" and bool(os.environ.get("CI")))


def is_allowed(reason: str) -> bool:
    """`reason`: of pytest.skip or skipif, with or without pytest's `Skipped: ` before it."""
    reason = reason.removeprefix("Skipped: ").strip()
    return any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in ALLOWED)
