"""Downloads Apicurio Registry from Maven Central, as `jars` downloads Kafka: with the Ivy inside pyspark, once.

<cache>/apicurio-registry-3.0.9/     the unpacked archive, complete or not there
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import (
    Coordinate,
    JarsNotResolved,
    cache_dir,
    find_ivy,
    locked,
    not_retrieved,
    retrieving,
    run_ivy,
    write_module,
)

VERSION = "3.0.9"  # the last that runs on Java 17
_NAME = "apicurio-registry-app"
_MOST_BYTES = 1 << 30  # unpacked; 3.0.9 has 110 MB


def registry_jar() -> Path:
    """The jar to run, beside the folder of its libraries; downloaded when not there (104 MB, some 10 s).

    Any number of processes may call it at once. Raises `JarsNotResolved` with what Ivy said, `JavaNotFound`.
    """
    folder = cache_dir() / f"apicurio-registry-{VERSION}"
    jar = folder / f"{_NAME}-{VERSION}-runner.jar"
    if not zipfile.is_zipfile(jar):  # the folder is renamed into place, so its libraries are there, too
        with locked(cache_dir() / "lock"):
            if not zipfile.is_zipfile(jar):  # another process may have done it while we waited
                _retrieve(folder)
    return jar


def _retrieve(folder: Path) -> None:
    """Fill the folder at once or not at all; the caller holds the lock."""
    java, ivy = find_java(), find_ivy()
    what = f"Apicurio Registry {VERSION}"
    with retrieving(what, folder) as partial:
        said = _run_ivy(java, ivy, partial)
        archive, unpacked = partial / f"{_NAME}-{VERSION}.tar.gz", partial / "unpacked"
        if not archive.exists():
            raise not_retrieved(what, said)
        _unpack(archive, unpacked)
        shutil.rmtree(folder, ignore_errors=True)
        unpacked.rename(folder)


def _run_ivy(java: Path, ivy: Path, partial: Path) -> str:
    """Retrieve the archive into `partial`; return what Ivy printed. gzip has a checksum of its own."""
    module = write_module(partial, Coordinate("io.apicurio", _NAME, VERSION, classifier="all"), "tar.gz")
    arguments = ["-cache", str(partial / "cache"), "-ivy", str(module), "-types", "tar.gz", "-confs", "default"]
    arguments += ["-retrieve", f"{partial}/[artifact]-[revision].[ext]"]
    # The POM of its parent cannot be had.
    return run_ivy(java, ivy, partial / "home", partial, arguments, "Apicurio Registry", poms=False)


def _unpack(archive: Path, folder: Path) -> None:
    """Plain files with plain paths, nothing else. Raises JarsNotResolved for an archive that is cut or has others."""
    left = _MOST_BYTES
    try:
        with tarfile.open(archive, "r:gz") as opened:
            for member in opened:
                path = folder / member.name
                left -= member.size
                if member.isdir():
                    continue
                if not member.isfile() or ".." in path.parts or not path.is_relative_to(folder) or left < 0:
                    raise JarsNotResolved(f"{archive.name} holds {member.name!r}, which no release of Apicurio has")
                path.parent.mkdir(parents=True, exist_ok=True)
                source = opened.extractfile(member)
                assert source is not None
                with source, path.open("wb") as target:
                    shutil.copyfileobj(source, target)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise JarsNotResolved(f"{archive.name} cannot be unpacked: {error}") from None
