"""The empty logs of a KRaft cluster, as `kafka-storage format` makes them.

A node's `meta.properties` says that its folder is formatted; a formatted folder is left as it is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

from kafkasource.testing.broker.errors import BrokerStartFailed
from kafkasource.testing.broker.jvm.command_lines import Jvm
from kafkasource.testing.broker.node import telling
from kafkasource.testing.broker.properties import kafka_uuid


def format_storage(jvm: Jvm, nodes: int, scram: Sequence[str], timeout_s: float) -> None:
    """Format `node-N` in the cluster's folder by `node-1.properties`. `scram`: credentials as `--add-scram` takes them.

    Raises BrokerStartFailed when Kafka refuses the properties.
    """
    folder, template = jvm.folder, jvm.folder / "node-1"
    if not (template / "meta.properties").exists():
        users = [word for credential in scram for word in ("--add-scram", credential)]
        tool = ("kafka.tools.StorageTool", "format", "-t", kafka_uuid(), "-c", f"{template}.properties", *users)
        done = jvm.run(*tool, timeout_s=timeout_s)
        if done.returncode != 0:
            raise BrokerStartFailed(f"Kafka refuses its properties: {telling(done.stdout + done.stderr)}")
    # The other nodes differ in two lines of one file: copying spares a JVM for each.
    for node in range(2, nodes + 1):
        data = folder / f"node-{node}"
        if not (data / "meta.properties").exists():
            shutil.copytree(template, data, dirs_exist_ok=True)
            meta = (template / "meta.properties").read_text()
            meta = re.sub(r"(?m)^node\.id=.*$", f"node.id={node}", meta)
            meta = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={kafka_uuid()}", meta)
            (data / "meta.properties").write_text(meta)
