"""Every case of the parity table, on a real broker, through Spark's JVM connector and through ours."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from parity import judge
from parity_cases import CASES
from parity_run import Kafka, Run, make_shared_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.peers]

AT_ONCE = 3  # runs; a streaming query waits more than it works


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
        yield {
            (case.id, name): pool.submit(
                Run(pykafka.spark, kafka, shared, name, tmp_path_factory.mktemp("parity")).do, case.steps
            )
            for case in chosen
            for name in ("kafka", "pykafka")
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_our_source_beside_the_jvm_connectors(runs, case):
    wrong = judge(case, runs[case.id, "kafka"].result(), runs[case.id, "pykafka"].result())
    assert not wrong, "\n".join(wrong)
