"""Files that another process reads: each appears, or changes, whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """What a killed writer leaves is hidden: a reader of the folder that looks for names does not find it."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.replace(file)
