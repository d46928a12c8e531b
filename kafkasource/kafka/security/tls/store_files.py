"""Files that options of TLS name: found, read, and watched for changes."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.kafka.security.shipped_files import find_file
from kafkasource.kafka.security.tls.options import named

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Of each file: path, inode, time of the last change in ns, bytes. (0, 0, 0): it cannot be read."""

_MOST_BYTES = 16 << 20  # the largest bundles of authorities have 1 MiB
_MOST_FILES = 4096  # in a folder of authorities
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass
class StoreFiles:
    """Reads files, and remembers what they were like just before, to notice a later change."""

    seen: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def read(self, option: str, location: str) -> bytes:
        """The bytes of the file that an option names. Raises OptionError, which names the option, host and path."""
        return self._read(option, self._path(option, location))

    def read_all(self, option: str, location: str) -> list[tuple[str, bytes]]:
        """The path and the bytes of the file, or of each file in the folder. Raises OptionError."""
        path = self._path(option, location)
        if not path.is_dir():
            return [(str(path), self._read(option, path))]
        self.seen[str(path)] = _state(path)
        try:
            files = sorted(file for file in path.iterdir() if file.is_file())
        except OSError as error:
            raise _unreadable(option, path, error) from None
        if len(files) > _MOST_FILES:
            raise OptionError(f"{named(option)}: the folder {path} has {len(files)} files")
        return [(str(file), self._read(option, file)) for file in files]

    def path(self, option: str, location: str) -> Path:
        """Find the file, and watch it from now on. Raises OptionError."""
        path = self._path(option, location)
        self.seen[str(path)] = _state(path)
        return path

    @property
    def fingerprint(self) -> Fingerprint:
        """Fingerprint of the files, taken just before they were read."""
        return tuple((path, *state) for path, state in sorted(self.seen.items()))

    def _path(self, option: str, location: str) -> Path:
        if location.startswith("file:"):
            location = re.sub(r"^file:(//)?(?=/)", "", location)
        elif _SCHEME.match(location):
            raise OptionError(
                f"{named(option)}: {location} is not on this machine. Each driver and executor must have"
                " the file: ship it with --files and give its name alone, or mount it at the same path everywhere"
            )
        return find_file(location)

    def _read(self, option: str, path: Path) -> bytes:
        self.seen[str(path)] = _state(path)  # before the read: a change in between is noticed later
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise _unreadable(option, path, error) from None
        if len(data) > _MOST_BYTES:
            raise OptionError(f"{named(option)}: {path} is larger than {_MOST_BYTES} bytes")
        return data


def fingerprint_of(paths: Iterable[str | Path]) -> Fingerprint:
    """Fingerprint the files as they are now."""
    return tuple((str(path), *_state(Path(path))) for path in paths)


def current(fingerprint: Fingerprint) -> Fingerprint:
    """Fingerprint the same files as they are now."""
    return fingerprint_of(path for path, *_ in fingerprint)


def _state(path: Path) -> tuple[int, int, int]:
    try:
        state = os.stat(path)
    except OSError:
        return 0, 0, 0
    return state.st_ino, state.st_mtime_ns, state.st_size


def _unreadable(option: str, path: Path, error: OSError) -> OptionError:
    return OptionError(
        f"{named(option)}: {path.absolute()} cannot be read on host {platform.node()}"
        f" ({error.strerror or type(error).__name__}). Each driver and executor must have it: ship it with --files"
        " and give its name alone, or mount it at the same path everywhere"
    )
