"""Finds and removes what `broker start`, `registry start` and `demo` have downloaded into the cache folder.

Only folders that these commands make count: whatever else lies in the cache folder stays. A folder is renamed before it
is emptied, so that no half of one is taken for a complete one.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.testing.broker import detached
from kafkasource.testing.broker.jvm.jars import cache_dir, locked
from kafkasource.testing.broker.registry import detached as detached_registry

# `kafka-4.3.1.xyz`: a download whose process died, or one that an earlier clean has renamed.
_OURS = re.compile(r"(ivy|(kafka|spark-sql-kafka|apicurio-registry)-\d+(\.\d+)+)(\.\w+)?")
_REMOVED = ".removed"


@dataclass(frozen=True)
class Download:
    path: Path
    bytes: int  # of the files in it


def downloads() -> list[Download]:
    """List the downloads, by name."""
    found = sorted(each for each in cache_dir().iterdir() if _OURS.fullmatch(each.name) and not each.is_symlink())
    return [Download(each, _bytes(each)) for each in found if each.is_dir()]


def remove(found: list[Download]) -> None:
    """Remove them. Waits for a download that runs. Raises KafkaSourceError while `broker start` or `registry start` has
    left something running that uses them."""
    for what, state in (("broker", detached.status()), ("registry", detached_registry.status())):
        if state is not None and state.running:
            raise KafkaSourceError(f"a {what} runs from these files: end it first, with `pykafka {what} stop`")
    with locked(cache_dir() / "lock"):
        for each in found:
            if each.path.exists():
                gone = each.path.with_name(each.path.name.removesuffix(_REMOVED) + _REMOVED)
                shutil.rmtree(gone, ignore_errors=True)
                if each.path != gone:
                    each.path.rename(gone)
                    shutil.rmtree(gone)


def _bytes(folder: Path) -> int:
    return sum(os.lstat(os.path.join(inside, name)).st_size for inside, _, names in os.walk(folder) for name in names)
