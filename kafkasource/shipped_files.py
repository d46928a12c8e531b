"""Where a file that an option names lies on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def find_file(path: str) -> Path:
    """The file or folder of an option's path, which need not be there.

    A relative path is looked for in the current folder, then among what `--files` and `SparkContext.addFile` ship:
    Spark keeps those in a folder that differs from process to process. Works in tasks and in planning processes.
    """
    given = Path(os.path.expanduser(path))
    if given.is_absolute() or given.exists():
        return given
    shipped = _folder_of_spark()
    if shipped is not None and (shipped / given).exists():
        return shipped / given
    return given


def _folder_of_spark() -> Path | None:
    """Spark's folder of shipped files. It asks only a pyspark that the process has loaded already."""
    module = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    files = getattr(module, "SparkFiles", None)
    try:
        root = files.getRootDirectory() if files is not None else None
    except Exception:  # a driver without a session
        return None
    return Path(root) if root else None
