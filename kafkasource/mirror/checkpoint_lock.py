"""One mirror at a time on a checkpoint: a lock on a file beside each query's checkpoint, where that is a local folder.

Spark notices a second query on a checkpoint only when both write its next file, and then the query that ran well may
die. The system takes an flock back when its process ends, in whatever way, so a mirror that was killed
leaves nothing to clear away. On other file systems (hdfs:, s3a:) there is no such lock.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.exactly_once.query_identity import location_parts

log = logging.getLogger("kafkasource.mirror")


class CheckpointLocks:
    """The locks that a mirror holds. One thread."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def take(self, location: str, default_scheme: str = "file") -> None:
        """Lock the checkpoint at this location. Raises OptionError where another mirror holds it.

        `default_scheme`: of the file system that Hadoop takes for a location without one.
        """
        scheme, _, folder = location_parts(location)
        if (scheme or default_scheme) != "file":
            return
        path = Path(f"{os.path.abspath(folder)}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            _unlocked(path, error)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OptionError(
                f"another mirror runs with the checkpoint {location} (it holds the lock {path}): end that mirror, or"
                " give this mirror a checkpoint of its own (checkpoint in the file, or --checkpoint)"
            ) from None
        except OSError as error:  # a network's file system without locks
            os.close(descriptor)
            _unlocked(path, error)
        else:
            self._descriptors.append(descriptor)

    def close(self) -> None:
        """Let go of all. The files stay: of two mirrors that start now, each could lock another file of this name."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _unlocked(path: Path, error: OSError) -> None:
    log.warning("no lock on %s (%s): see to it that no other mirror runs with this checkpoint", path, error.strerror)
