"""Archives of the classes that a JVM of the tests loads (class data sharing, JEP 350): with one, it starts sooner.

`scripts/kafka_class_archive.py` and `scripts/spark_class_archive.py` write them into the environment. Java checks that
an archive fits its version and the jars; where it does not, it loads the classes from the jars.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

KAFKA, SPARK = (Path(sys.prefix) / f"{name}-classes.jsa" for name in ("kafka", "spark"))
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # on an archive that does not fit, Java says so on each start
_WRITTEN = "classes.jsa"


def using(archive: Path) -> str:
    """Flags with which a JVM maps the archive. Empty if it does not exist."""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto {_SILENT}" if archive.exists() else ""


def writing(folder: Path) -> str:
    """Flags for a JVM that writes an archive into the folder when it ends in order."""
    return f"-XX:ArchiveClassesAtExit={folder / _WRITTEN} {_SILENT}"


def take(folder: Path, archive: Path) -> None:
    """Move what the JVM has written into its place, at once."""
    partial = archive.with_suffix(f".{os.getpid()}")
    shutil.copyfile(folder / _WRITTEN, partial)
    partial.replace(archive)
