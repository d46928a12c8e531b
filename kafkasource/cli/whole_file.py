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
    return file.with_name(f"{file.name}.part")


@contextlib.contextmanager
def written_whole(file: Path, named: str) -> Iterator[IO[bytes]]:
    """After an error there is no file, or the old one. Raises OptionError, which begins with `named`, for one that
    cannot be written."""
    partial = partial_of(file)
    try:
        with partial.open("wb") as stream:
            yield stream
        os.replace(partial, file)
    except OSError as error:
        raise OptionError(f"{named}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
