"""A file that a command writes: it gets its name only when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kafkasource.errors import OptionError


def partial_of(file: Path) -> Path:
    """Where the file is written until it is complete."""
    place = _place_of(file)
    return place.with_name(f"{place.name}.part")


def _place_of(file: Path) -> Path:
    """What a link leads to, so that it stays a link."""
    return Path(os.path.realpath(file)) if file.is_symlink() else file


@contextlib.contextmanager
def written_whole(file: Path, named: str) -> Iterator[IO[bytes]]:
    """After an error there is no file, or the old one. What stands there and is no regular file, such as a FIFO or
    /dev/null, is written to as it is. Raises OptionError, which begins with `named`, for one that cannot be written."""
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
