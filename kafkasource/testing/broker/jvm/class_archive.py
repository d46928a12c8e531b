"""An archive of Kafka's loaded classes, with which a broker starts in half the time (class data sharing, JEP 350).

It is made where the environment has KAFKASOURCE_CLASS_ARCHIVE=1, as node 1 of the first cluster of a release then ends
in order and takes some seconds longer for it: worth it for whoever starts many. It lies beside the jars, as
`java-0123456789ab.jsa` (45 MB). Every JVM of later clusters maps it. Java checks itself that an archive fits its
version and the jars; where it does not, it loads the classes from the jars.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

# Whatever Java has to say of an archive that it does not take: nobody asked for one.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_WRITTEN = "classes.jsa"


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one folder of jars and one Java."""

    file: Path

    @classmethod
    def of(cls, java: Path, jars: Path) -> ClassArchive:
        """A Java that was updated has another one."""
        real = java.resolve()
        known_by = hashlib.sha256(f"{real} {real.stat().st_mtime_ns}".encode()).hexdigest()[:12]
        return cls(jars / f"java-{known_by}.jsa")

    def using(self) -> tuple[str, ...]:
        """Flags with which a JVM maps the archive. Empty if the archive does not exist."""
        return (f"-XX:SharedArchiveFile={self.file}", "-Xshare:auto", *_SILENT) if self.file.exists() else ()

    def wanted(self) -> bool:
        """Is it to be made?"""
        return os.environ.get("KAFKASOURCE_CLASS_ARCHIVE") == "1" and not self.file.exists()

    @staticmethod
    def writing(folder: Path) -> tuple[str, ...]:
        """Flags for one JVM that is to write it into this folder when it ends in order."""
        return (f"-XX:ArchiveClassesAtExit={folder / _WRITTEN}", *_SILENT)

    def take(self, folder: Path) -> None:
        """Keep what that JVM, which has ended, has left there. Does nothing where it left nothing, or nobody may write
        beside the jars: the archive saves time, and is worth no error."""
        partial = self.file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            shutil.copyfile(folder / _WRITTEN, partial)
            partial.replace(self.file)  # no other process sees half of one
