"""Mirror topics of one cluster to others, with a Spark job that runs until you end it.

FILE is TOML, or properties of MirrorMaker 2 where its name ends in .properties: docs/mirror.md. Without spark-submit
the job runs on all cores of this machine. After the first Ctrl-C or SIGTERM the mirror commits the running micro-batch
and ends; the second one ends it at once. When you start it again, it continues where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import kafkasource
from kafkasource import options
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.kafka.security.quoting import without_password
from kafkasource.options.spelling import many
from kafkasource.spark.launcher import start_spark

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from kafkasource.mirror.plan import Plan, Route

HELP = "mirror clusters, as a Spark job from a TOML file"
EXAMPLES = """examples:
  pykafka mirror mirror.toml --check          what would be read from where and written to where
  pykafka mirror mirror.toml --status         where each flow is, and what a start would copy
  pykafka mirror mirror.toml
  pykafka mirror mm2.properties --checkpoint /checkpoints/mirror
  spark-submit --master yarn examples/mirror.py mirror.toml"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="mirror.toml, or mm2.properties of MirrorMaker 2")
    parser.add_argument(
        "--check",
        action="store_true",
        help="print what the mirror would do, without starting Spark; with a checkpoint also what changes",
    )
    parser.add_argument(
        "--status", action="store_true", help="print where each flow is, and what a start would copy; without Spark"
    )
    parser.add_argument("--once", action="store_true", help="end when all records that exist now are copied")
    parser.add_argument("--checkpoint", metavar="LOCATION", help="use this checkpoint instead of the file's")
    parser.add_argument("--json", action="store_true", help="with --check or --status: JSON on stdout")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from kafkasource.mirror import job
    from kafkasource.tools.cli.mirror_status import MirrorStatus

    plan = read(arguments.file, arguments.checkpoint)
    for warning in plan.warnings:
        print(f"pykafka: {arguments.file}: {warning}", file=sys.stderr)
    routes = job.check(plan)
    if arguments.check:
        print(json.dumps([_as_json(route) for route in routes], indent=1)) if arguments.json else _show(plan, routes)
        return 0
    if arguments.status:
        from kafkasource.tools.cli import mirror_flows

        flows = mirror_flows.flows_of(plan)
        print(json.dumps(mirror_flows.as_json(flows), indent=1)) if arguments.json else mirror_flows.show(flows)
        return 0
    with _ended() as end, ExitStack() as ends:
        spark = _spark(plan.checkpoint or "")
        end.watch()
        try:
            kafkasource.register(spark)
            sinks: dict[str, Mapping[str, str]] = {}
            if plan.metrics_port is not None:
                served = kafkasource.serve_metrics(spark, plan.metrics_port, plan.metrics_host, sinks=sinks)
                ends.callback(served.close)
                print(f"pykafka: metrics at {served.url}", file=sys.stderr)
            mirror = job.start(plan, spark, once=arguments.once, end=end.event, sinks=sinks)
            try:
                print(f"pykafka: mirroring {', '.join(map(str, plan.flows))}", file=sys.stderr)
                status = MirrorStatus(mirror.runs, sys.stderr)
                done = mirror.wait(end.event, lambda: status.look(mirror.queries))
                status.show(mirror.queries)
                if not done:
                    mirror.finish()
                elif arguments.once:
                    print("pykafka: all records that existed at the start are copied", file=sys.stderr)
            finally:
                mirror.stop()
        finally:
            spark.stop()
    return 0 if done or not arguments.once else end.code  # `--once` promises that all has been carried over


class _End:
    """Ends a mirror on Ctrl-C or SIGTERM. The first signal sets `event`, because an exception during a call to Spark
    would break the session. The second signal ends the process at once."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.code = 0  # as a shell says it: 130 after Ctrl-C, 143 after SIGTERM
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def watch(self) -> None:
        """Set the handlers, also if a script's shell ignores SIGINT. Call it again after Spark's start, because Spark
        sets its own handler."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.signal(number, self._set)
                self._before.setdefault(number, before)

    def restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _set(self, number: int, _: object) -> None:
        self.code = 128 + number
        if self.event.is_set():
            _say("ended at once: the next run does again what was not committed")
            os._exit(self.code)  # Spark's JVM ends when it sees our end of its standard input closed
        _say("ending when the micro-batch that runs is committed; a second Ctrl-C or SIGTERM ends at once")
        self.event.set()


def _say(what: str) -> None:
    """Write from a signal handler, which may interrupt a `print`."""
    os.write(2, f"pykafka: {what}\n".encode())


@contextlib.contextmanager
def _ended() -> Iterator[_End]:
    end = _End()
    end.watch()
    try:
        yield end
    finally:
        end.restore()


def read(file: str, checkpoint: str | None = None) -> Plan:
    """The plan of a file. Raises OptionError."""
    from dataclasses import replace

    from kafkasource.mirror import mirror_maker, toml_file

    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{file}: cannot be read: {reason}") from None
    parse = mirror_maker.parse if file.endswith(".properties") else toml_file.parse
    plan = parse(text, file)
    return replace(plan, checkpoint=checkpoint) if checkpoint else plan


def _spark(checkpoint: str) -> SparkSession:
    """The session of spark-submit, or one of our own on this machine."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:  # workers must be this interpreter: a virtual environment need not be active
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise KafkaSourceError("a mirror is a Spark job: pip install 'kafkasource[spark]'") from None
    if not submitted and SparkContext._active_spark_context is None:
        start_spark("pykafka mirror", "local[*]", checkpoint)
    return SparkSession.builder.getOrCreate()


def _show(plan: Plan, routes: list[Route]) -> None:
    from kafkasource.tools.cli import mirror_flows, tables

    rows = [
        (
            flow.source,
            flow.target,
            ", ".join(flow.topics) + (f" but {', '.join(flow.exclude)}" if flow.exclude else ""),
            flow.template,
            "by header" if plan.needs_header(flow) else "by name",
        )
        for route in routes
        for flow in route.flows
    ]
    tables.show(("from", "to", "topics", "there", "cycles end"), rows)
    queries = many(len(routes), "query" if len(routes) == 1 else "querie")
    print(f"{queries}, checkpoints below {without_password(str(plan.checkpoint))}")
    try:
        flows = mirror_flows.flows_of(plan) if mirror_flows.has_run(plan) else None
    except OptionError:  # a start would be refused
        raise
    except KafkaSourceError as error:
        print(f"where the flows are is not known: {error}")
    else:
        if flows is not None:
            mirror_flows.show(flows)


def _as_json(route: Route) -> dict[str, object]:
    """The options that Spark gets, without secrets."""
    clusters = json.loads(route.write["clusters"])
    return {
        "query": route.name,
        "checkpoint": route.checkpoint and without_password(route.checkpoint),
        "flows": [str(flow) for flow in route.flows],
        "read": options.shown(route.read),
        "write": {
            **options.shown(route.write),
            "clusters": {name: options.shown(own) for name, own in clusters.items()},
        },
        "headers": dict(route.headers),
    }
