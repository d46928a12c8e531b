"""Every case of the parity table, on a real broker.

`make test` runs ours, and holds it to what the JVM connector saw (`jvm_record.py`): all batch reads, without Spark
(`parity_direct.py`), and of each row of the table the first case with streams or writes, through Spark. Where both
read the same checkpoint, both run. `make extended` runs all cases through both, everything through Spark, and holds the
record to what is seen.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import jvm_record
import pytest
from parity import Committed, Running, Sql, Stream, Write, WriteStream, judge
from parity_cases import CASES
from parity_direct import DirectRun
from parity_run import SPARK_TOO_BUSY, Kafka, Run, make_shared_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers]

AT_ONCE = 2  # runs; each starts Python processes, for which Spark waits no longer than ten seconds
TRIES = 3  # of a run in which Spark did not wait long enough
BOTH, OURS = ("kafka", "pykafka"), ("pykafka",)


@pytest.fixture(scope="module")
def kafka(kafka_broker):
    kafka = Kafka(kafka_broker.bootstrap_servers, f"parity-{uuid.uuid4().hex[:8]}")
    yield kafka
    kafka.close()


@pytest.fixture(scope="module")
def runs(request, pykafka, kafka, tmp_path_factory):
    """The outcome of each tested case with each connector: futures, as several run at once."""
    shared = make_shared_topics(kafka)
    mine = [
        item.callspec.params
        for item in request.session.items
        if item.module is request.module and not item.get_closest_marker("skip")
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def seen(kind, name, steps):
            """Run the case, each time with topics and a checkpoint of its own."""
            for _ in range(TRIES):
                run = kind(pykafka.spark, kafka, shared, name, tmp_path_factory.mktemp("parity"))
                run.do(steps)
                if not any(each.error and SPARK_TOO_BUSY in each.error for each in run.seen):
                    break
            return run.seen

        wanted = {
            (each["case"].id, name, kind_of(each["through"])): each["case"].steps
            for each in mine
            for name in each["through"]
        }
        yield {(case, name, kind): pool.submit(seen, kind, name, steps) for (case, name, kind), steps in wanted.items()}
        pool.shutdown(cancel_futures=True)


def kind_of(through):
    return DirectRun if through == OURS else Run


def later_streams():
    """The cases that `make test` leaves out: those with streams or writes but the first of each row of the table."""
    rows = defaultdict(list)
    for case in CASES:
        if any(isinstance(read, Stream | Running | Write | WriteStream | Sql) for read in case.reads):
            rows[case.option].append(case.id)
    return {case for cases in rows.values() for case in cases[1:]}


LATER = later_streams()


def needs(case):
    """The marks of what its streams need of Spark."""
    needed = set()
    for read in case.reads:
        if isinstance(read, Stream) and any(name.endswith("PerTrigger") for name in read.options):
            needed.add("limited_available_now")
        if isinstance(read, Running) and any(name.startswith("ending") for name in read.options):
            needed.add("trigger_is_told")
        if isinstance(read, Committed):
            needed.add("last_group_commit")
    return [pytest.mark.needs_spark(row) for row in sorted(needed)]


def through_both(case):
    extended = [pytest.mark.extended] if not case.needs_both or case.id in LATER else []
    return pytest.param(case, BOTH, id=case.id, marks=[pytest.mark.jvm_connector, *needs(case), *extended])


def through_ours(case):
    extended = [pytest.mark.extended] if case.id in LATER else []
    return pytest.param(case, OURS, id=case.id, marks=[*needs(case), *extended])


@pytest.mark.parametrize(("case", "through"), [through_both(case) for case in CASES])
def test_our_source_beside_the_jvm_connectors(runs, case, through):
    theirs, ours = (runs[case.id, name, Run].result() for name in through)
    wrong = judge(case, theirs, ours)
    assert not wrong, "\n".join(wrong)
    if jvm_record.WRITES:
        jvm_record.write(case, theirs)
    assert jvm_record.outlines(case, theirs) == jvm_record.recorded().get(case.id, [])


@pytest.mark.parametrize(("case", "through"), [through_ours(case) for case in CASES if not case.needs_both])
def test_our_source_beside_what_the_jvm_connector_saw(runs, case, through):
    wrong = jvm_record.judge_by_record(case, runs[case.id, "pykafka", DirectRun].result())
    assert not wrong, "\n".join(wrong)
