"""Every case of the parity table, on a real broker, through Spark's JVM connector and through ours."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from parity import judge
from parity_cases import CASES
from parity_run import SPARK_TOO_BUSY, Kafka, Run, make_shared_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers]

AT_ONCE = 2  # runs; each starts Python processes, for which Spark waits no longer than ten seconds
TRIES = 3  # of a run in which Spark did not wait long enough


@pytest.fixture(scope="module")
def kafka(kafka_broker):
    kafka = Kafka(kafka_broker.bootstrap_servers, f"parity-{uuid.uuid4().hex[:8]}")
    yield kafka
    kafka.close()


@pytest.fixture(scope="module")
def runs(request, pykafka, kafka, tmp_path_factory):
    """What each connector saw of each case that is to be tested: futures, as several run at once."""
    shared = make_shared_topics(kafka)
    chosen = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def seen(name, steps):
            """With topics and a checkpoint of its own each time."""
            for _ in range(TRIES):
                run = Run(pykafka.spark, kafka, shared, name, tmp_path_factory.mktemp("parity"))
                run.do(steps)
                if not any(each.error and SPARK_TOO_BUSY in each.error for each in run.seen):
                    break
            return run.seen

        yield {(case.id, name): pool.submit(seen, name, case.steps) for case in chosen for name in ("kafka", "pykafka")}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_our_source_beside_the_jvm_connectors(runs, case):
    wrong = judge(case, runs[case.id, "kafka"].result(), runs[case.id, "pykafka"].result())
    assert not wrong, "\n".join(wrong)
