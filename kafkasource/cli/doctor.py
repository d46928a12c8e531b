"""Check what a job needs: Python, kernel, Spark, Java, and a cluster with each of its brokers."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from kafkasource import __version__
from kafkasource.cli.arguments import add_cluster, add_json, bootstrap_servers, client_config, many, reach
from kafkasource.errors import KafkaSourceError, OptionError

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster
    from kafkasource.types import Node

HELP = "what a job needs: Python, kernel, Spark, Java, brokers and their addresses"

OK, WARNING, FAILED = "ok", "warning", "FAILED"
_LEAST_SPARK = (4, 2)
_ANSWER_MS = 10_000  # of one broker

# The newest version of Fetch that a release serves: how old a broker is, seen from outside.
_FETCH_VERSIONS = (
    (17, "3.9 or newer"),
    (16, "3.7 or 3.8"),
    (15, "3.5 or 3.6"),
    (13, "3.1 to 3.4"),
    (12, "2.7 to 3.0"),
    (11, "2.3 to 2.6"),
    (10, "2.1 or 2.2"),
    (8, "2.0"),
    (7, "1.1"),
    (4, "0.11 or 1.0"),
    (2, "0.10"),
    (1, "0.9"),
    (0, "0.8"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `remedy` is for what is not ok."""

    level: str
    what: str
    found: str
    remedy: str = ""


def add(parser: argparse.ArgumentParser) -> None:
    add_cluster(parser)
    add_json(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    """Exit code 1 where something failed."""
    failed = 0
    found = []
    for one in _findings(arguments):
        failed += one.level == FAILED
        found.append(asdict(one))
        if not arguments.json:
            print(f"{one.level:<8} {one.what:<16} {one.found}", flush=True)
            if one.remedy:
                print(f"{'':<25} → {one.remedy}", flush=True)
    if arguments.json:
        print(json.dumps(found, indent=1))
    return 1 if failed else 0


def _findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    yield _python()
    yield _kernel()
    yield _spark()
    yield _workers_python()
    yield _java()
    try:
        servers = bootstrap_servers(arguments)
    except OptionError:
        yield Finding(OK, "cluster", "none named, so none looked at: --bootstrap-servers names one")
        return
    yield from _cluster(arguments, servers)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(OK, "python", f"{version}, kafkasource {__version__}, {sys.executable}")


def _kernel() -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is said here
        from kafkasource.records import COMPILED

    if COMPILED:
        return Finding(OK, "kernel", "compiled")
    return Finding(
        WARNING,
        "kernel",
        "not compiled: records are decoded about a hundred times slower",
        "where a C compiler is: pip install --force-reinstall --no-deps --no-binary kafkasource kafkasource",
    )


def _spark() -> Finding:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Finding(
            WARNING, "pyspark", "not in this Python", "pip install 'kafkasource[spark]', or use the cluster's"
        )
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _LEAST_SPARK:
        return Finding(FAILED, "pyspark", version, "its Python data sources want 4.2 or newer")
    return Finding(OK, "pyspark", version)


_ASK_WORKER = """
import json, sys
found = {"version": list(sys.version_info[:2]), "executable": sys.executable, "package": None}
try:
    import kafkasource, kafkasource.records
    found["package"], found["compiled"] = kafkasource.__version__, kafkasource.records.COMPILED
    import pyspark_pykafka
    found["by_name"] = True
except ImportError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def _workers_python() -> Finding:
    """Which Python Spark starts on this machine for its workers, and does it find us?"""
    named = os.environ.get("PYSPARK_PYTHON") or os.environ.get("PYSPARK_DRIVER_PYTHON")
    command = named or "python3"
    origin = f"PYSPARK_PYTHON={named}" if named else "python3 of the PATH (PYSPARK_PYTHON is not set)"
    what, path = "spark's python", shutil.which(command)
    this_one = f"export PYSPARK_PYTHON={sys.executable}"
    if path is None:
        return Finding(FAILED, what, f"{origin}: there is none", this_one)
    try:
        done = subprocess.run([path, "-c", _ASK_WORKER], capture_output=True, text=True, timeout=60, cwd="/")
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return Finding(FAILED, what, f"{origin}: {path} does not run", this_one)
    version = ".".join(map(str, found["version"]))
    shown = f"{version}, {path}, from {origin}"
    if tuple(found["version"]) != sys.version_info[:2]:
        return Finding(FAILED, what, f"{shown}: Spark wants one version in driver and workers", this_one)
    if found["package"] is None:
        return Finding(WARNING, what, f"{shown}: has no kafkasource ({found.get('error')})", this_one)
    if not found.get("by_name"):
        return Finding(WARNING, what, f"{shown}: format('pykafka') needs kafkasource.register(spark)", this_one)
    if not found["compiled"]:
        return Finding(WARNING, what, f"{shown}: its kernel is not compiled", this_one)
    return Finding(OK, what, shown)


def _java() -> Finding:
    from kafkasource.broker.java import find_java

    try:
        return Finding(OK, "java", str(find_java()))
    except KafkaSourceError as error:
        text, _, remedy = str(error).partition(": ")
        return Finding(FAILED, "java", text, remedy)


def _cluster(arguments: argparse.Namespace, servers: str) -> Iterator[Finding]:
    from kafkasource.client.cluster import Cluster

    try:
        config = client_config(arguments)
        reach(config)
    except KafkaSourceError as error:
        yield Finding(FAILED, "cluster", str(error), "start the broker, or mend the address")
        return
    with Cluster(config) as cluster:
        known = cluster.brokers()
        yield Finding(
            OK, "cluster", f"{known.cluster_id or 'without an id'}, {many(len(known.nodes), 'broker')}, by {servers}"
        )
        local = {host for host, _ in config.bootstrap_servers} <= _LOCAL
        for node in known.nodes:
            yield _broker(cluster, node, local)


_LOCAL = {"localhost", "127.0.0.1", "::1"}


def _broker(cluster: Cluster, node: Node, local: bool) -> Finding:
    """Check a broker at the address that it advertises, to which all clients must connect."""
    from kafkasource.client.metadata import metadata_body
    from kafkasource.protocol.apis import FETCH, METADATA

    what, where = f"broker {node.node_id}", f"{node.host}:{node.port}"
    remedy = f"the broker advertises {where} (advertised.listeners): it must be an address that clients can reach"
    try:
        cluster.caller.call(node.node_id, METADATA, metadata_body([]), timeout_ms=_ANSWER_MS)
        served = cluster.caller.served(FETCH, node.node_id)
    except KafkaSourceError as error:
        return Finding(FAILED, what, str(error), remedy)
    release = next(text for least, text in _FETCH_VERSIONS if served is None or served[1] >= least)
    shown = f"{where}, Kafka {release}" + (f", rack {node.rack}" if node.rack else "")
    if node.host in _LOCAL and not local:
        return Finding(WARNING, what, f"{shown}: only clients on its own machine reach that", remedy)
    return Finding(OK, what, shown)
