"""Writes a file that gets its name only when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kafkasource.errors import OptionError


def partial_of(file: Path) -> Path:
    """The name of the file until it is complete."""
    place = _place_of(file)
    return place.with_name(f"{place.name}.part")


def _place_of(file: Path) -> Path:
    """The target of a link, so that the link stays."""
    return Path(os.path.realpath(file)) if file.is_symlink() else file


@contextlib.contextmanager
def written_whole(file: Path, named: str) -> Iterator[IO[bytes]]:
    """Open the file for writing. After an error the old file is still there, if there was one. A FIFO or a device such
    as /dev/null is written directly. Raises OptionError, whose text begins with `named`, if the file cannot be
    written."""
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as stream:
                yield stream
            return
        partial = partial_of(file)
        try:
            partial.unlink(missing_ok=True)  # of a run that was killed; or a link that somebody has put there
            with partial.open("xb") as stream:
                yield stream
            os.replace(partial, _place_of(file))
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OptionError(f"{named}: {error.strerror}") from None
