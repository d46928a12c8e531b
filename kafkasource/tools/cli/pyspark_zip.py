"""Adds compiled code to Spark's file `pyspark.zip`.

Spark puts the file first on the path of every Python process that it starts. pip's file holds sources alone, and Python
stores no compiled code for a zip, so each process compiles pyspark again. Spark waits ten seconds (a constant in its
code) until the process that plans a stream connects. On a busy machine that is not enough, and the query ends with
"Python worker failed to connect back".

A zip may hold compiled files beside its sources. They come after the sources, so a process that has already read the
directory of the file, such as a daemon of a running job, still finds everything at its place. They fit this Python's
version; another version uses the sources. They have unchecked hashes (PEP 552), because times in a zip lack a zone.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import shutil
import warnings
import zipfile
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.cli.whole_file import partial_of

_PROBE = "pyspark/daemon.py"  # the first module of most processes
_UNCHECKED_HASH = (1).to_bytes(4, "little")


def of_spark() -> Path | None:
    """The file of the Spark that this Python starts; None where it starts none, or one that has no such file."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        package = importlib.util.find_spec("pyspark")
        if package is None or not package.submodule_search_locations:
            return None
        home = package.submodule_search_locations[0]
    file = Path(home, "python", "lib", "pyspark.zip")
    return file if file.exists() else None


def is_compiled(file: Path) -> bool:
    """Whether a process of this Python's version finds compiled code there. A link to the installed package has it."""
    if file.is_dir():
        return True
    try:
        with zipfile.ZipFile(file) as archive, archive.open(f"{_PROBE}c") as compiled:
            return compiled.read(4) == importlib.util.MAGIC_NUMBER
    except (KeyError, zipfile.BadZipFile):
        return False


def original_of(file: Path) -> Path:
    """The copy of the unchanged file that `compile_in_place` keeps."""
    return file.with_name(f"{file.name}.original")


def compile_in_place(file: Path) -> None:
    """Raises KafkaSourceError if the file cannot be read or its folder cannot be written; then nothing has changed."""
    original, partial = original_of(file), partial_of(file)
    try:
        if not _holds_compiled_code(file):
            shutil.copy2(file, original)
        try:  # the original has no compiled code of another version of Python
            write_compiled(original, partial, named=str(file))
            shutil.copymode(original, partial)
            os.replace(partial, file)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, zipfile.BadZipFile) as error:
        raise KafkaSourceError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _holds_compiled_code(file: Path) -> bool:
    with zipfile.ZipFile(file) as archive:
        return f"{_PROBE}c" in archive.namelist()


def write_compiled(source: Path, target: Path, named: str) -> None:
    """Write a copy of the zip with a compiled file for each module except tests.

    `named`: the path of the zip where Python imports from it. pyspark looks for it in tracebacks and profiles.
    """
    shutil.copyfile(source, target)
    with zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".py") and "tests" not in member.filename.split("/"):
                compiled = _compiled(archive.read(member), f"{named}/{member.filename}")
                if compiled is not None:
                    archive.writestr(f"{member.filename}c", compiled)


def _compiled(source: bytes, name: str) -> bytes | None:
    """None for a module that this Python cannot read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the escapes of its docstrings
            code = compile(source, name, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source) + marshal.dumps(code)
