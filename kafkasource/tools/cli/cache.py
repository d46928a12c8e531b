"""Removes what `broker start`, `registry start` and `demo` have downloaded: jars, and the cache of Ivy.

Only folders that these commands make count: whatever else lies in the cache folder stays. A folder is renamed before it
is emptied, so that no half of one is taken for a complete one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.options.spelling import size
from kafkasource.tools.cli import tables
from kafkasource.tools.cli.arguments import add_json

HELP = "remove what was downloaded to start a Kafka here"
EXAMPLES = """examples:
  pykafka cache clean --dry-run       what there is, and how much
  pykafka cache clean"""

# `kafka-4.3.1.xyz`: a download whose process died, or one that an earlier clean has renamed.
_OURS = re.compile(r"(ivy|(kafka|spark-sql-kafka|apicurio-registry)-\d+(\.\d+)+)(\.\w+)?")
_REMOVED = ".removed"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    clean = commands.add_parser("clean", help="remove the downloads; `broker start` and `demo` download again")
    clean.add_argument("--dry-run", action="store_true", help="show what would be removed, and remove nothing")
    add_json(clean)
    clean.set_defaults(run=_clean)


def _clean(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker.jvm.jars import cache_dir, locked

    folders = [each for each in sorted(cache_dir().iterdir()) if _OURS.fullmatch(each.name) and not each.is_symlink()]
    sizes = {str(folder): _bytes(folder) for folder in folders}
    if not arguments.dry_run:
        _refuse_while_running()
        with locked(cache_dir() / "lock"):
            for folder in folders:
                _remove(folder)
    total = sum(sizes.values())
    if arguments.json:
        print(json.dumps({"removed": not arguments.dry_run, "bytes": total, "downloads": sizes}, indent=1))
    elif not folders:
        print(f"nothing is downloaded in {cache_dir()}")
    else:
        tables.show(("download", "bytes"), [(path, tables.Bytes(bytes_)) for path, bytes_ in sizes.items()])
        print(f"{'would remove' if arguments.dry_run else 'removed'} {size(total)} from {cache_dir()}")
    return 0


def _refuse_while_running() -> None:
    from kafkasource.testing.broker import detached
    from kafkasource.testing.broker.registry import detached as detached_registry

    for what, state in (("broker", detached.status()), ("registry", detached_registry.status())):
        if state is not None and state.running:
            raise KafkaSourceError(f"a {what} runs from these files: end it first, with `pykafka {what} stop`")


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    gone = folder.with_name(folder.name.removesuffix(_REMOVED) + _REMOVED)
    if folder != gone:
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
    shutil.rmtree(gone)


def _bytes(folder: Path) -> int:
    return sum(os.lstat(os.path.join(inside, name)).st_size for inside, _, names in os.walk(folder) for name in names)
