"""`pykafka mirror` itself, in a process of its own, as a user runs it: a file of TOML, its own Spark session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.benchmarks.mirror.lab import SOURCE


def toml(folder: Path, servers: Mapping[str, str], targets: Sequence[str], topic: str) -> str:
    """One flow of one topic to all targets, which get it under the name that MirrorMaker's default policy gives."""
    lines = [f'checkpoint = "{folder}/checkpoint"']
    for name in (SOURCE, *targets):
        lines += [f"[clusters.{name}]", f'kafka.bootstrap.servers = "{servers[name]}"']
    lines += ["[[flows]]", f'from = "{SOURCE}"', f"to = [{', '.join(repr(name) for name in targets)}]"]
    lines += [f'topics = ["{topic}"]', 'topic = "${source}.${topic}"']
    return "\n".join(lines) + "\n"


def start(folder: Path, text: str) -> subprocess.Popen[bytes]:
    """Its process; `folder`/spark.log is what it says."""
    file = folder / "mirror.toml"
    file.write_text(text)
    with (folder / "spark.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "kafkasource", "mirror", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(folder)},
            cwd=folder,
        )
