"""Finds the files that options name on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kafkasource.errors import OptionError

_remembered: list[Path] = []  # the folder that another process knows: at most one


def folder_of_spark() -> Path | None:
    """Spark's folder of shipped files, as Spark has told this process. It asks only a pyspark that is loaded."""
    module = sys.modules.get("pyspark.core.files") or sys.modules.get("pyspark.files")
    files = getattr(module, "SparkFiles", None)
    try:
        root = files.getRootDirectory() if files is not None else None
    except Exception:  # a driver without a session
        return None
    return Path(root) if root else None


def remember_folder(folder: Path | None) -> None:
    """Use a folder that another process of this machine knows: the planner of a stream found none (4.2.0)."""
    if folder is not None:
        _remembered[:] = [folder]


def find_file(path: str) -> Path:
    """The file or folder of an option's path, which need not be there.

    A relative path is looked for in the current folder, then among what `--files` and `SparkContext.addFile` ship:
    Spark keeps those in a folder that differs from process to process. Works in tasks and in planning processes.
    """
    given = Path(os.path.expanduser(path))
    if given.is_absolute() or given.exists():
        return given
    for shipped in (folder_of_spark(), *_remembered):
        if shipped is not None and (shipped / given).exists():
            return shipped / given
    return given


def text_of_file(path: str, option: str) -> str:
    """Read a file of UTF-8, with or without a byte order mark. Raises OptionError, which names the path's option."""
    file = find_file(path)
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"option {option!r}: {file} cannot be read: {error}") from None
