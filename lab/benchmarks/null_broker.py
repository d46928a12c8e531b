"""`python -m lab.benchmarks.null_broker`: a broker that acknowledges records and stores none, for measuring.

It prints its port, and serves one topic `t` of 8 partitions until its standard input ends. One thread for each
connection; ids of idempotent producers and sequences are not checked.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, INIT_PRODUCER_ID, METADATA, PRODUCE, Api
from kafkasource.kafka.protocol.frames import FrameReader, encode_response
from kafkasource.kafka.protocol.primitives import ByteReader
from kafkasource.kafka.protocol.schema import Body

TOPIC, PARTITIONS = "t", 8
_SERVED = (API_VERSIONS, METADATA, INIT_PRODUCER_ID, PRODUCE)
_LARGEST_REQUEST_BYTES = 100 << 20  # Kafka's socket.request.max.bytes


class NullBroker:
    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._server.getsockname()[:2]
        self._cluster_id = str(uuid.uuid4())
        self._answers: dict[Api, Callable[[Body], Body]] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            INIT_PRODUCER_ID: lambda _: {"error_code": 0, "producer_id": 1, "producer_epoch": 0},
            PRODUCE: self._produce,
        }

    def serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        frames = FrameReader(_LARGEST_REQUEST_BYTES)
        with connection, contextlib.suppress(OSError):
            while size := connection.recv_into(frames.writable()):
                for frame in frames.advance(size):
                    connection.sendall(self._answer(frame))

    def _answer(self, frame: memoryview) -> bytes:
        reader = ByteReader(frame)
        api, version, correlation_id = APIS[reader.int16()], reader.int16(), reader.int32()
        reader.nullable_string()
        if api.request.is_flexible(version):
            reader.skip_tagged_fields()
        body = self._answers[api](api.request.read(version, reader))
        return encode_response(api, version, correlation_id, body)

    def _api_versions(self, _: Body) -> Body:
        ranges = [(api.key, *api.stable_versions) for api in _SERVED]
        return {
            "error_code": 0,
            "api_keys": [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in ranges],
        }

    def _metadata(self, _: Body) -> Body:
        partitions = [
            {"partition_index": number, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
            for number in range(PARTITIONS)
        ]
        return {
            "brokers": [{"node_id": 1, "host": self.host, "port": self.port}],
            "cluster_id": self._cluster_id,
            "controller_id": 1,
            "topics": [{"name": TOPIC, "topic_id": uuid.UUID(int=1), "partitions": partitions}],
        }

    def _produce(self, request: Body) -> Body:
        return {
            "responses": [
                {
                    "name": topic["name"],
                    "partition_responses": [
                        {"index": each["index"], "error_code": 0, "base_offset": 0} for each in topic["partition_data"]
                    ],
                }
                for topic in request["topic_data"]
            ]
        }


@contextmanager
def null_broker() -> Iterator[str]:
    """One in a process of its own. Gives its address."""
    command = [sys.executable, "-m", "lab.benchmarks.null_broker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


if __name__ == "__main__":
    broker = NullBroker()
    threading.Thread(target=broker.serve, daemon=True).start()
    print(broker.port, flush=True)
    sys.stdin.read()
    os._exit(0)
