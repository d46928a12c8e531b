"""The page's server on a real Kafka, and a browser without a window. Other clients write what the page shows."""

import contextlib

import pytest
from confluent_producer import ordered_producer
from ui_process import TOKEN, Served, serving

from kafkasource.tools.ui.app import UiServer
from kafkasource.tools.web.serving import Listening


@pytest.fixture(scope="session")
def token_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("ui") / "token"
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture(scope="session")
def served(kafka_broker, token_file):
    with serving(kafka_broker.bootstrap_servers, token_file) as server:
        yield server


@pytest.fixture
def scripted():
    """`scripted({"/api/topics": answer}) -> Served`: the page's server without a broker. An answer is a value, or a
    function of what the page asks."""
    with contextlib.ExitStack() as stack:

        def serve(answers, writes=False):
            app = UiServer(Listening(token=TOKEN), None, None)
            stack.callback(app.close)
            cluster = {
                "/api/cluster": {"bootstrap": ["kafka:9092"], "cluster_id": "c", "brokers": [], "writes": writes}
            }
            for path, answer in {**cluster, **answers}.items():
                app._paths[path] = answer if callable(answer) else lambda _, answer=answer: answer
            return Served(app.url)

        yield serve


@pytest.fixture
def produce(kafka_broker):
    """confluent-kafka writes: `produce(topic, [{"value": b"a", "key": b"k", "partition": 0, "timestamp": 1}])`."""
    producer = ordered_producer(kafka_broker.bootstrap_servers)

    def write(topic, records):
        for record in records:
            producer.produce(topic, **record)
        assert producer.flush(60) == 0

    return write
