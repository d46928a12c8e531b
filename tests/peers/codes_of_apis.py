"""Shows which client goes on after which error code: ours, Java's and librdkafka, in front of the same fake broker.

One answer to a request of one API has the code, all others are as they should be. A client that goes on then has passed
over the code; else its job has ended. The others' outcomes are on file:

    PYTHONPATH=.:tests:tests/source:tests/sink python tests/peers/codes_of_apis.py

asks Java's clients and librdkafka again. That takes some minutes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from fake_broker import Answer, Error, FakeNet, close_clients, serve
from fetch_rig import Kafka, Rig
from one_record import write_a_record

from kafkasource.errors import TABLE, KafkaSourceError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import EARLIEST
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Api,
)
from kafkasource.types import TopicPartition

T0 = TopicPartition("t", 0)
RECORD = Path(__file__).with_suffix(".json")
CODES = [code for code in TABLE if code]


@dataclass(frozen=True)
class Case:
    """One API, and the job in which a client asks it."""

    name: str
    api: Api
    job: str  # of CodesOfApis.java and `librdkafka`
    key_type: int | None = None  # of FindCoordinator


CASES = {
    case.name: case
    for case in (
        Case("Metadata, of a topic", METADATA, "write"),
        Case("InitProducerId", INIT_PRODUCER_ID, "write"),
        Case("Produce", PRODUCE, "write"),
        Case("Fetch", FETCH, "read"),
        Case("ListOffsets", LIST_OFFSETS, "list"),
        Case("FindCoordinator, of a group", FIND_COORDINATOR, "committed", 0),
        Case("OffsetFetch", OFFSET_FETCH, "committed"),
        Case("OffsetCommit", OFFSET_COMMIT, "commit"),
        Case("FindCoordinator, of a transactional id", FIND_COORDINATOR, "transaction", 1),
        Case("InitProducerId, of a transactional id", INIT_PRODUCER_ID, "transaction"),
        Case("AddPartitionsToTxn", ADD_PARTITIONS_TO_TXN, "transaction"),
        Case("Produce, in a transaction", PRODUCE, "transaction"),
        Case("AddOffsetsToTxn", ADD_OFFSETS_TO_TXN, "transaction"),
        Case("TxnOffsetCommit", TXN_OFFSET_COMMIT, "transaction"),
        Case("EndTxn", END_TXN, "transaction"),
    )
}
RETRIABLE = {code for code, row in TABLE.items() if row.retriable} - {8}
"""By Kafka's own table, which tests/test_errors.py compares: 8 is retriable in ours alone."""

OURS = {
    name: sorted(RETRIABLE | {8} | more)
    for name, more in {
        **{name: set[int]() for name in CASES},
        "Metadata, of a topic": set(CODES) - {17, 29},
        "InitProducerId": {-1},
        "InitProducerId, of a transactional id": {-1},
        "FindCoordinator, of a group": {-1},
        "FindCoordinator, of a transactional id": {-1},
        "Produce": {46, 59},
        "Produce, in a transaction": {46, 59},
        "Fetch": {-1, 1},
        "OffsetFetch": {69},
    }.items()
}
"""Case -> the codes after which this client goes on."""

_NUMBERS = {name: number for number, name in enumerate(CASES)}


def client_id(name: str, code: int) -> str:
    """The client that gets this code from `FaultyKafka`."""
    return f"case-{_NUMBERS[name]}-code-{code}-"


_GIVEN = {client_id(name, code): (case, code) for name, case in CASES.items() for code in CODES}


class FaultyKafka(Kafka):
    """A broker whose first answer to the API of a case has the code that the client's id names."""

    def __init__(self) -> None:
        super().__init__(topics={"t": 1})
        self.transaction_version = 1  # the dialect with most requests
        self._met: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def handle(self, node_id, frame):
        with self._one_at_a_time:
            return super().handle(node_id, frame)

    def _with_fault(self, request, correlation_id, fault):
        case, code = _GIVEN.get(request.client_id, (None, 0))
        if case is not None and request.client_id not in self._met and _is_of(case, request):
            self._met.add(request.client_id)
            fault = self._with_code(request, code)
        return super()._with_fault(request, correlation_id, fault)

    def _with_code(self, request, code):
        """Metadata has codes of topics, Fetch of partitions; the others have one place each, or all mean the same."""
        if request.api is METADATA:
            rows = [{"error_code": code, "name": each["name"], "partitions": []} for each in request.body["topics"]]
            return Answer({**self.answer(request), "topics": rows})
        if request.api is FETCH:
            (topic,) = request.body["topics"]
            row = {"partition_index": 0, "error_code": code, "high_watermark": -1, "records": b""}
            return Answer({"error_code": 0, "responses": [{**topic, "partitions": [row]}]})
        return Error(code)


def _is_of(case: Case, request) -> bool:
    if request.api is not case.api or (request.api is METADATA and not request.body["topics"]):
        return False
    return case.key_type is None or request.body["key_type"] == case.key_type


# Ours.


def ours(name: str, code: int) -> bool:
    """Do what the others do. The driver of a query asks more often: `fetchOffset.numRetries`."""
    me, job = client_id(name, code), CASES[name].job
    net = FakeNet(FaultyKafka())
    cluster = net.cluster(client_id=me)
    try:
        if job == "write" and CASES[name].api is METADATA:
            cluster.leaders.of(T0)
        elif job == "write":
            write_a_record(net, client_id=me)
        elif job == "transaction":
            _commit_a_record(net, cluster, me)
        elif job == "list":
            cluster.offsets.list({T0: EARLIEST})
        elif job == "commit":
            cluster.groups.commit(me, {T0: 5})
        elif job == "committed":
            cluster.groups.committed(me, [T0])
        else:
            rig = Rig()
            rig.net, rig.cluster = net, cluster
            assert rig.read(0, 10) == list(range(10))
    except KafkaSourceError:
        return False
    finally:
        close_clients()
    return True


def _commit_a_record(net: FakeNet, cluster: Cluster, me: str) -> None:
    transaction = TaskTransaction.open(cluster.transactions, me, 60_000, 1)
    transaction.enroll([T0])
    write_a_record(net, transaction, client_id=me)
    cluster.transactions.add_offsets(me, transaction.producer, me)
    cluster.transactions.commit_offsets(me, transaction.producer, me, {T0: (5, "")}, 1)
    cluster.transactions.end(me, transaction.producer, True, 1)


# Others' clients.


def java(servers: str, cases: list[tuple[str, int]]) -> list[bool]:
    from java_programs import ask_java

    commands = [(servers, CASES[name].job, client_id(name, code)) for name, code in cases]
    return [said == "on" for said in ask_java(Path(__file__).with_name("CodesOfApis.java"), commands)]


def librdkafka(servers: str, cases: list[tuple[str, int]]) -> list[bool]:
    workers = ThreadPoolExecutor(24)
    outcomes = [workers.submit(_librdkafka, servers, *each) for each in cases]
    wait(outcomes, timeout=200)  # its commits have no time limit
    print("without an end:", [case for case, each in zip(cases, outcomes, strict=True) if not each.done()])
    return [each.done() and each.result() for each in outcomes]


def _librdkafka(servers: str, name: str, code: int) -> bool:
    import confluent_kafka as ck

    me, job = client_id(name, code), CASES[name].job
    quick = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 20, "reconnect.backoff.ms": 10}
    settings = {"bootstrap.servers": servers, "client.id": me, "log_level": 0, **quick}
    in_time = {"message.timeout.ms": 6000, "transaction.timeout.ms": 10_000}
    try:
        if job in ("write", "transaction"):
            own = {"enable.idempotence": True} if job == "write" else {"transactional.id": me}
            _write_by(
                ck, ck.Producer({**settings, **own, **in_time}), {"bootstrap.servers": servers, "group.id": me}, job
            )
        else:
            _read_by(ck, {**settings, "group.id": me, "enable.auto.commit": False, "auto.offset.reset": "error"}, job)
    except (ck.KafkaException, Ended):
        return False
    return True


class Ended(Exception):
    """The job came to no good end."""


def _write_by(ck, producer, of_group, job) -> None:
    failed: list[object] = []

    def again(call, *arguments, left=9):
        """Call again where librdkafka calls the error retriable, as its own examples do."""
        try:
            call(*arguments)
        except ck.KafkaException as error:
            if not error.args[0].retriable() or not left:
                raise
            time.sleep(0.1)
            again(call, *arguments, left=left - 1)

    if job == "transaction":
        again(producer.init_transactions, 8)
        producer.begin_transaction()
    producer.produce("t", b"v", partition=0, on_delivery=lambda error, _: failed.append(error) if error else None)
    if producer.flush(8) or failed:
        raise Ended
    if job == "transaction":
        offsets = [ck.TopicPartition("t", 0, 5)]
        group = ck.Consumer(of_group)
        try:
            again(producer.send_offsets_to_transaction, offsets, group.consumer_group_metadata(), 8)
        finally:
            group.close()
        again(producer.commit_transaction, 8)


def _read_by(ck, settings, job) -> None:
    consumer = ck.Consumer(settings)
    t0 = ck.TopicPartition("t", 0, 0)
    try:
        if job == "commit":
            consumer.commit(offsets=[ck.TopicPartition("t", 0, 5)], asynchronous=False)
        elif job == "committed":
            (found,) = consumer.committed([t0], timeout=8)
            if found.error is not None:
                raise Ended
        else:
            consumer.assign([t0 if job == "read" else ck.TopicPartition("t", 0, ck.OFFSET_BEGINNING)])
            until = time.monotonic() + 8
            while (message := consumer.poll(0.2)) is None:
                if time.monotonic() > until:
                    raise Ended
            if message.error() is not None or message.offset() != 0:
                raise Ended
    finally:
        consumer.close()


Passed = dict[str, list[int]]
"""Case -> the codes after which a client goes on."""


def passed_by_java() -> Passed:
    """In InitProducerId a race between two threads of the producer decides about 31 and 53: they count as the end."""
    found = _passed(java)
    found["InitProducerId"] = [code for code in found["InitProducerId"] if code not in (31, 53)]
    return found


def _passed(peer: Callable[[str, list[tuple[str, int]]], list[bool]]) -> Passed:
    cases = [(name, code) for name in CASES for code in CODES]
    with serve(FaultyKafka()) as (host, port):
        outcomes = dict(zip(cases, peer(f"{host}:{port}", cases), strict=True))
    return {name: [code for code in CODES if outcomes[name, code]] for name in CASES}


def record() -> None:
    found = {"Java": passed_by_java(), "librdkafka": _passed(librdkafka)}
    lines = [f'  "{name}": {json.dumps(codes)}' for of in found.values() for name, codes in of.items()]
    parts = [",\n".join(lines[: len(CASES)]), ",\n".join(lines[len(CASES) :])]
    RECORD.write_text(
        "{\n" + ",\n".join(f' "{name}": {{\n{part}\n }}' for name, part in zip(found, parts, strict=True)) + "\n}\n"
    )


def markdown_table() -> str:
    """Make the table of docs/error-codes.md: the codes after which this client and Java's go on."""
    java = json.loads(RECORD.read_text())["Java"]
    alike: dict[str, list[str]] = {}
    for name in CASES:
        alike.setdefault(f"{_shown(set(OURS[name]))} | {_shown(set(java[name]))}", []).append(name)
    rows = [f"| {'; '.join(names)} | {codes} |" for codes, names in alike.items()]
    return "\n".join(["| API | this client | Java |", "|---|---|---|", *rows])


def _shown(codes: set[int]) -> str:
    """The shortest of three ways to say it."""
    more, fewer, others = codes - RETRIABLE, RETRIABLE - codes, set(CODES) - codes
    ways = [
        (len(codes), f"{_listed(codes)} only"),
        (len(others), f"all but {_listed(others)}" if others else "all"),
        (
            len(more) + len(fewer),
            "retriable" + (f" and {_listed(more)}" if more else "") + (f", not {_listed(fewer)}" if fewer else ""),
        ),
    ]
    return min(ways, key=lambda way: way[0])[1]


def _listed(codes: set[int]) -> str:
    return ", ".join(map(str, sorted(codes)))


if __name__ == "__main__":
    record()
    sys.stdout.flush()
    os._exit(0)  # threads of librdkafka's clients may be left
