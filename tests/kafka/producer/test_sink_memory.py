"""However slow the brokers are to take what a task has, its worker holds no more than the option allows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from proxy import Proxy

TESTS = Path(__file__).parents[2]
BUFFER_MEMORY, MB = 8 * 1024 * 1024, 1_000_000
LITTLE, MUCH = 1 * MB, 30 * MB  # three times what the memory holds, and not more: each costs its seconds, slowly

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the peak of a process"),
]


class Worker:
    """A process of its own that writes through a proxy."""

    def __init__(self, bootstrap_servers, topic, proxy):
        told = {
            "servers": bootstrap_servers,
            "proxy": proxy.address,
            "topic": topic,
            "options": {"kafka.buffer.memory": str(BUFFER_MEMORY)},
        }
        paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        self._process = subprocess.Popen(
            [sys.executable, str(TESTS / "sink" / "memory_worker.py"), json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def write(self, size):
        self._process.stdin.write(f"{size}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def test_brokers_ten_times_slower_than_the_input_fill_the_buffer_and_nothing_else(kafka_broker, kafka_topic, capsys):
    topic = kafka_topic(partitions=4)
    host, port = kafka_broker.bootstrap_servers.rsplit(":", 1)
    with Proxy((host, int(port))) as proxy, Worker(kafka_broker.bootstrap_servers, topic, proxy) as worker:
        begun = worker.write(LITTLE)
        before = proxy.bytes_to_broker
        quick = worker.write(MUCH)
        proxy.bytes_per_s = (proxy.bytes_to_broker - before) / quick["seconds"] / 10
        slow = worker.write(MUCH)
    grown, private = slow["peak"] - begun["peak"], slow["peak"] - slow["shared"]
    with capsys.disabled():
        print(
            f"\n{MUCH // MB} MB in {quick['seconds']:.1f} s, and in {slow['seconds']:.1f} s by slow brokers: peak "
            f"{slow['peak'] / MB:.0f} MB, {slow['shared'] / MB:.0f} of them shared; with {LITTLE // MB} MB written "
            f"{begun['peak'] / MB:.0f}; kafka.buffer.memory {BUFFER_MEMORY / MB:.0f}"
        )
    assert slow["records"] == MUCH // 100
    assert slow["seconds"] > 5 * quick["seconds"], "the brokers were not slow"
    assert grown <= BUFFER_MEMORY + 10 * MB
    assert private <= BUFFER_MEMORY + 100 * MB
