"""The page's server on a real Kafka, and a browser without a window. Other clients write what the page shows."""

import chromium
import pytest
from confluent_producer import ordered_producer
from ui_process import TOKEN, serving


@pytest.fixture(scope="session")
def token_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("ui") / "token"
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture(scope="session")
def served(kafka_broker, token_file):
    with serving(kafka_broker.bootstrap_servers, token_file) as one:
        yield one


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    command = chromium.installed()
    if command is None:
        pytest.skip("no Chromium (apt-get install chromium): the page is not looked at")
    with chromium.Chromium(command, tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture
def produce(kafka_broker):
    """confluent-kafka writes: `produce(topic, [{"value": b"a", "key": b"k", "partition": 0, "timestamp": 1}])`."""
    producer = ordered_producer(kafka_broker.bootstrap_servers)

    def write(topic, records):
        for each in records:
            producer.produce(topic, **each)
        assert producer.flush(60) == 0

    return write
