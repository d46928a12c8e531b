"""MirrorMaker 2 itself: `org.apache.kafka.connect.mirror.MirrorMaker`, from Maven Central, in a process of its own.

As `connect-mirror-maker.sh` starts it (heap, collector), with one process for all flows. Default is what its manual's
first example says: clusters, a flow and its topics; replication factors are 1 because the clusters have one broker.
Tuned is what its users tell each other: as many tasks as partitions, large fetches and batches, a linger, and nothing
beside the records (no heartbeats, checkpoints, offset syncs or copied configurations).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafkasource.testing.broker import DEFAULT_VERSION
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import LOGGING, Coordinate, cache_dir, resolve_jars
from lab.benchmarks.mirror.lab import PARTITIONS, SOURCE

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
ARTIFACT = Coordinate.parse(f"org.apache.kafka:connect-mirror:{DEFAULT_VERSION}")
JVM = (
    *("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)

# Needed with clusters of one broker.
_SINGLE = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
}

# Of each flow, under `source->target.`.
_TUNED_FLOW = {
    "tasks.max": str(PARTITIONS),
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "source.consumer.max.poll.records": "10000",
    "source.consumer.fetch.min.bytes": "262144",
    "source.consumer.fetch.max.wait.ms": "100",
    "source.consumer.max.partition.fetch.bytes": "4194304",
    "source.consumer.receive.buffer.bytes": "1048576",
}

# Of each target, under `target.`.
_TUNED_TARGET = {
    "producer.batch.size": "524288",
    "producer.linger.ms": "50",
    "producer.buffer.memory": "134217728",
    "producer.max.request.size": "4194304",
    "producer.send.buffer.bytes": "1048576",
}


def mirrored_name(topic: str) -> str:
    """At the targets, by its default replication policy."""
    return f"{SOURCE}.{topic}"


def properties(servers: Mapping[str, str], targets: Sequence[str], topic: str, *, tuned: bool) -> dict[str, str]:
    """What it is told to mirror one topic from the source to each of the targets."""
    told = {"clusters": ", ".join((SOURCE, *targets)), **_SINGLE}
    if not tuned:  # it refuses to start with this and no offset syncs
        told["offset-syncs.topic.replication.factor"] = "1"
    told |= {f"{name}.bootstrap.servers": servers[name] for name in (SOURCE, *targets)}
    if tuned:
        told["emit.heartbeats.enabled"] = "false"  # else there are flows back for them
    for name in targets:
        flow = f"{SOURCE}->{name}"
        told |= {f"{flow}.enabled": "true", f"{flow}.topics": topic}
        if tuned:
            told |= {f"{flow}.{key}": value for key, value in _TUNED_FLOW.items()}
            told |= {f"{name}.{key}": value for key, value in _TUNED_TARGET.items()}
    return told


def start(folder: Path, told: Mapping[str, str], targets: Sequence[str]) -> subprocess.Popen[bytes]:
    """Its process; `folder`/mirror-maker.log is what it says."""
    jars = cache_dir() / f"connect-mirror-{DEFAULT_VERSION}"
    resolve_jars(ARTIFACT, LOGGING, dest=jars)
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in told.items()))
    files = (f"-Djava.io.tmpdir={folder}", "-XX:-UsePerfData")
    logging = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
    command = [str(find_java()), *JVM, *files, *logging, "-cp", f"{jars}/*", MAIN_CLASS, str(file)]
    with (folder / "mirror-maker.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--clusters", *targets], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder
        )
