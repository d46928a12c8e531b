"""Mirror clusters: topics by pattern from one to others, read once, by a Spark job that runs until it is ended.

FILE is TOML, or properties of MirrorMaker 2 where its name ends in .properties: docs/mirror.md. Without spark-submit
the job runs on all cores of this machine. Ended by Ctrl-C; started again it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkasource.cli.arguments import many
from kafkasource.errors import KafkaSourceError, OptionError

if TYPE_CHECKING:
    from kafkasource.mirror.plan import Plan, Route

HELP = "mirror clusters, as a Spark job from a TOML file"
EXAMPLES = """examples:
  pykafka mirror mirror.toml --check          what would be read from where and written to where
  pykafka mirror mirror.toml
  pykafka mirror mm2.properties --checkpoint /checkpoints/mirror
  spark-submit --master yarn examples/mirror.py mirror.toml"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="mirror.toml, or mm2.properties of MirrorMaker 2")
    parser.add_argument("--check", action="store_true", help="say what it would do; ask no broker, start no Spark")
    parser.add_argument("--once", action="store_true", help="end when all that is there now has been carried over")
    parser.add_argument("--checkpoint", metavar="LOCATION", help="in place of the file's own")
    parser.add_argument("--json", action="store_true", help="with --check: JSON on stdout")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from kafkasource.mirror import job

    plan = read(arguments.file, arguments.checkpoint)
    for warning in plan.warnings:
        print(f"pykafka: {arguments.file}: {warning}", file=sys.stderr)
    routes = job.check(plan)
    if arguments.check:
        print(json.dumps([_as_json(route) for route in routes], indent=1)) if arguments.json else _show(plan, routes)
        return 0
    spark = _spark()
    try:
        mirror = job.start(plan, spark, once=arguments.once)
        try:
            print(f"pykafka: mirroring {', '.join(map(str, plan.flows))}", file=sys.stderr)
            mirror.wait()
        finally:
            mirror.stop()
    except KeyboardInterrupt:  # how it is ended
        return 0
    finally:
        spark.stop()
    return 0


def read(file: str, checkpoint: str | None = None) -> Plan:
    """The plan of a file. Raises OptionError."""
    from dataclasses import replace

    from kafkasource.mirror import mirror_maker, toml_file

    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: cannot be read: {error}") from None
    parse = mirror_maker.parse if file.endswith(".properties") else toml_file.parse
    plan = parse(text, file)
    return replace(plan, checkpoint=checkpoint) if checkpoint else plan


def _spark() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise KafkaSourceError("a mirror is a Spark job: pip install 'kafkasource[spark]'") from None
    builder = SparkSession.builder.appName("pykafka mirror").config("spark.python.unix.domain.socket.enabled", "true")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _show(plan: Plan, routes: list[Route]) -> None:
    from kafkasource.cli import tables

    rows = [
        (
            flow.source,
            flow.target,
            ", ".join(flow.topics) + (f" but {', '.join(flow.exclude)}" if flow.exclude else ""),
            flow.template,
            "by header" if plan.needs_headers(flow) else "by name" if plan.cyclic(flow) else "-",
        )
        for route in routes
        for flow in route.flows
    ]
    tables.show(("from", "to", "topics", "there", "cycles end"), rows)
    print(f"{many(len(routes), 'query' if len(routes) == 1 else 'querie')}, checkpoints below {plan.checkpoint}")


def _as_json(route: Route) -> dict[str, Any]:
    """As it is given to Spark."""
    return {
        "query": route.name,
        "checkpoint": route.checkpoint,
        "flows": [str(flow) for flow in route.flows],
        "read": dict(route.read),
        "write": {**route.write, "clusters": json.loads(route.write["clusters"])},
        "headers": [route.header, route.provenance],
    }
