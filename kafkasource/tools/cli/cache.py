"""Shows and removes what was downloaded to start a Kafka or a registry here: jars, and the cache of Ivy."""

from __future__ import annotations

import argparse
import json

from kafkasource.options.spelling import size
from kafkasource.tools.cli import tables
from kafkasource.tools.cli.arguments import add_json

HELP = "show and remove what was downloaded to start a Kafka here"
EXAMPLES = """examples:
  pykafka cache clean --dry-run       what there is, and how much
  pykafka cache clean"""


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    clean = commands.add_parser("clean", help="remove the downloads; `broker start` and `demo` download again")
    clean.add_argument("--dry-run", action="store_true", help="show what would be removed, and remove nothing")
    add_json(clean)
    clean.set_defaults(run=_clean)


def _clean(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker.downloads import downloads, remove
    from kafkasource.testing.broker.jvm.jars import cache_dir

    found = downloads()
    total = sum(each.bytes for each in found)
    if not arguments.dry_run:
        remove(found)
    if arguments.json:
        rows = [{"path": str(each.path), "bytes": each.bytes} for each in found]
        print(json.dumps({"removed": not arguments.dry_run, "bytes": total, "downloads": rows}, indent=1))
    elif not found:
        print(f"nothing is downloaded in {cache_dir()}")
    else:
        tables.show(("download", "bytes"), [(each.path.name, tables.Bytes(each.bytes)) for each in found])
        print(f"{'would remove' if arguments.dry_run else 'removed'} {size(total)} from {cache_dir()}")
    return 0
