"""What an interactive user sees of the package and of its objects."""

import subprocess
import sys

import pytest

from kafkasource.reader import Reader
from kafkasource.writer import Writer

SECURED = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "reports",
    "kafka.sasl.password": "hunter2",
}


@pytest.mark.parametrize(
    ("kind", "more", "shown"),
    [
        (Reader, {"subscribe": "orders", "startingOffsets": '{"orders":{"0":3}}'}, ["orders", "127.0.0.1", "3"]),
        (Writer, {"topic": "orders", "kafka.acks": "1"}, ["orders", "127.0.0.1", "kafka.acks='1'"]),
    ],
)
def test_a_reader_and_a_writer_show_what_they_are_given_and_no_secret(kind, more, shown):
    with kind({**SECURED, **more}) as made:
        text = repr(made)
    assert text.startswith(f"{kind.__name__}(")
    assert all(part in text for part in shown)
    assert "hunter2" not in text


def test_dir_shows_the_api_alone():
    show = "import kafkasource; print(*(name for name in dir(kafkasource) if not name.startswith('__')))"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["SinkCommit", "lag", "open_transactions", "register", "serve_metrics"]
