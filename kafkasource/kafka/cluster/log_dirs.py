"""How large logs are: each leader says what its own replica has on disk (DescribeLogDirs, KIP-113).

A size is what an operator looks at and nothing depends on it: each broker is asked once, and a size that a broker does
not tell is missing from the result, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkasource.errors import ClusterAuthorizationFailed, KafkaSourceError, UnsupportedApiVersion, error_for
from kafkasource.kafka.cluster.caller import Caller
from kafkasource.kafka.protocol.apis import DESCRIBE_LOG_DIRS
from kafkasource.kafka.protocol.schema import Body
from kafkasource.types import TopicPartition


class LogSizes(NamedTuple):
    """Bytes of the leaders' replicas. `unknown`: why there is none for some partitions; None: there is one for each."""

    sizes: Mapping[TopicPartition, int]
    unknown: str | None

    def total(self, partitions: Iterable[TopicPartition]) -> int | None:
        """None where one is not known: a part of a size misleads."""
        total = 0
        for tp in partitions:
            size = self.sizes.get(tp)
            if size is None:
                return None
            total += size
        return total


def log_sizes(caller: Caller, partitions: Iterable[TopicPartition]) -> LogSizes:
    """The sizes of partitions whose leaders the metadata knows. A broker that refuses or fails is left out."""
    wanted: dict[int, dict[str, list[int]]] = {}
    sizes: dict[TopicPartition, int] = {}
    reasons: list[str] = []
    for tp in partitions:
        leader = caller.metadata.leader_id(tp)
        if leader is None:
            reasons.append(f"{tp} has no leader")
        else:
            wanted.setdefault(leader, {}).setdefault(tp.topic, []).append(tp.partition)
    pendings = {}
    for node_id, topics in wanted.items():
        body = {"topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]}
        pendings[node_id] = caller.send(node_id, DESCRIBE_LOG_DIRS, body)
    caller.wait(*pendings.values())
    for node_id, pending in pendings.items():
        try:
            found = _sizes(caller, pending.result(), node_id)
        except UnsupportedApiVersion:
            reasons.append(f"broker {node_id} does not offer {DESCRIBE_LOG_DIRS.name} (Apache Kafka: from 1.0 on)")
        except KafkaSourceError as error:
            reasons.append(str(error))
        else:
            sizes |= found
            if len(found) < sum(map(len, wanted[node_id].values())):
                reasons.append(f"broker {node_id} does not say how large all of its logs are")
    return LogSizes(sizes, reasons[0] if reasons else None)


def _sizes(caller: Caller, answer: Body, node_id: int) -> dict[TopicPartition, int]:
    context = f"{DESCRIBE_LOG_DIRS.name} of broker {node_id}"
    code = answer["error_code"]
    if code or not answer["results"]:  # a broker before 3.2 names no folder where the right is missing
        raise caller.refusal(DESCRIBE_LOG_DIRS, error_for(code or ClusterAuthorizationFailed.CODE, context))
    readable = [folder for folder in answer["results"] if not folder["error_code"]]
    return {
        TopicPartition(topic["name"], row["partition_index"]): row["partition_size"]
        for folder in readable
        for topic in folder["topics"]
        for row in topic["partitions"]
        if not row["is_future_key"]
    }
