"""The processes that Spark starts: is pyspark's code in its file compiled, and does Hadoop have its native library?"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.cli import pyspark_zip
from kafkasource.tools.cli.doctor.finding import FAILED, OK, WARNING, Finding

_WHAT = "spark's start"
_SLOW = (
    "holds no compiled code of this Python, so each Python process that Spark starts compiles pyspark again: 1 s of "
    "processor time, else 0.4. Spark waits 10 s for the one that plans a stream. On a busy machine that is not "
    "enough, and a query ends with 'Python worker failed to connect back'"
)


def start_findings(fix: bool = False) -> Iterator[Finding]:
    """Nothing where this Python starts no Spark. `fix`: add the compiled code."""
    file = pyspark_zip.of_spark()
    if file is None:
        return
    if pyspark_zip.is_compiled(file):
        yield Finding(OK, _WHAT, f"{file} {_compiled(file)}")
    elif not fix:
        yield Finding(WARNING, _WHAT, f"{file} {_SLOW}", _remedy(file))
    else:
        yield _fixed(file)
    if find_spec("pyspark") is not None and not _has_hadoop_library():
        from kafkasource.spark.releases import CHECKPOINT_FILE_MANAGER

        found = (
            "in each micro-batch, a checkpoint on this machine (file:) starts 20 processes, which take about 100 ms: "
            "Hadoop's native library is not here"
        )
        remedy = f"spark-submit --conf spark.sql.streaming.checkpointFileManagerClass={CHECKPOINT_FILE_MANAGER}"
        yield Finding(OK, "checkpoints", found, f"{remedy} (docs/tuning.md)")


def _has_hadoop_library() -> bool:
    folders = [
        folder
        for name in ("LD_LIBRARY_PATH", "JAVA_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
        for folder in os.environ.get(name, "").split(os.pathsep)
        if folder
    ]
    if home := os.environ.get("HADOOP_HOME"):
        folders.append(f"{home}/lib/native")
    return any(Path(folder, name).exists() for folder in folders for name in ("libhadoop.so", "libhadoop.dylib"))


def _fixed(file: Path) -> Finding:
    try:
        pyspark_zip.compile_in_place(file)
    except KafkaSourceError as error:
        return Finding(FAILED, _WHAT, f"--fix: {error}", _remedy(file))
    return Finding(OK, _WHAT, f"{file} {_compiled(file)}")


def _compiled(file: Path) -> str:
    if file.is_dir():
        return "leads to the installed package, which is compiled"
    original = pyspark_zip.original_of(file)
    undo = f"; to undo: mv {shlex.quote(str(original))} {shlex.quote(str(file))}" if original.exists() else ""
    return f"holds compiled code of this Python{undo}"


def _remedy(file: Path) -> str:
    keeps = f"it adds the code, and keeps the file as {pyspark_zip.original_of(file).name}"
    if os.access(file.parent, os.W_OK):
        return f"pykafka doctor --fix: {keeps}"
    command = shlex.join([sys.executable, "-m", "kafkasource", "doctor", "--fix"])
    return f"run {command} as a user who may write {file.parent}: {keeps}"
