"""Write the file that brings kafkasource to the workers of a Spark cluster, and print the spark-submit lines for it.

  environment FILE.tar.gz   the virtual environment of this command, for --archives: compiled, with all dependencies
                            but pyspark, which the cluster has
  zip FILE.zip              kafkasource alone, for --py-files: uncompiled, so it decodes about a hundred times slower

Run it in the environment that the job uses. docs/clusters.md compares these ways with others.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import json
import os
import shlex
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import kafkasource
from kafkasource.errors import KafkaSourceError
from kafkasource.options.spelling import size
from kafkasource.spark import workers
from kafkasource.tools.cli import pyspark_zip
from kafkasource.tools.cli.whole_file import partial_of, written_whole

HELP = "write the environment or the zip that brings kafkasource to a cluster's workers"

_NAME = "environment"  # of the folder into which each worker unpacks the archive
_NOT_IN_A_ZIP = {".so", ".pyd", ".pyc", ".c"}  # Python loads no compiled library from one


def add(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    for name, run, endings, what in (
        ("environment", _environment, (".tar.gz", ".tgz"), "this virtual environment, for spark-submit --archives"),
        ("zip", _zip, (".zip",), "kafkasource alone, for spark-submit --py-files"),
    ):
        kind = kinds.add_parser(name, help=what, description=f"Write {what}.")
        kind.add_argument(
            "file",
            metavar=f"FILE{endings[0]}",
            type=partial(_named, endings),
            help="the file to write; an older one is replaced",
        )
        kind.add_argument("--json", action="store_true", help="print the file and the lines for the shell as JSON")
        if run is _environment:
            kind.add_argument(
                "--with-pyspark",
                action="store_true",
                help="pack pyspark, too, 400 MB of it Spark's jars: for workers that find no pyspark of the cluster's",
            )
        kind.set_defaults(run=run)


def _named(endings: tuple[str, ...], text: str) -> Path:
    """An argparse type: Spark tells by the end of a file's name what it is."""
    file = Path(text)
    special = file.exists() and not file.is_file()  # a pipe: its reader chooses the name
    if not special and not text.lower().endswith(endings):
        raise argparse.ArgumentTypeError(
            f"{text!r}: Spark knows what the file is by its name, so end it with {' or '.join(endings)}"
        )
    return file


def _environment(arguments: argparse.Namespace) -> int:
    prefix, file = Path(sys.prefix), arguments.file.absolute()
    _refuse_what_does_not_move(prefix, file)
    print(f"packing {prefix}: this takes a minute or two", file=sys.stderr)
    slow_zip, without = None, _files_of_pyspark()
    if arguments.with_pyspark:
        found = _pyspark_folder() / "python" / "lib" / "pyspark.zip"
        slow_zip = found if found.exists() and not pyspark_zip.is_compiled(found) else None
        without = [str(found)] if slow_zip else []
    with (
        written_whole(file, str(file)) as stream,
        tarfile.open(fileobj=stream, mode="w:gz", compresslevel=6) as archive,
    ):
        for each in sorted(prefix.iterdir()):
            if each != partial_of(file):
                archive.add(each, arcname=each.name, filter=_chosen(prefix, without))
        if slow_zip is not None:
            _add_compiled_zip(archive, prefix, slow_zip)
    if file.is_file():
        pyspark = "with pyspark" if arguments.with_pyspark else "without pyspark, which the cluster's Spark has"
        print(f"{file}: {size(file.stat().st_size)}, {pyspark}", file=sys.stderr)
    _show(
        arguments,
        [
            f'PATH={shlex.quote(str(prefix))}/bin:"$PATH" PYSPARK_PYTHON=python spark-submit '
            f"--archives {shlex.quote(str(file))}#{_NAME} --conf {workers.path_of_archive(_NAME)} job.py"
        ],
        "Driver and workers each find `python` by a PATH of their own. Each worker needs "
        f"{os.path.realpath(sys.executable)}, to which the environment links.",
    )
    return 0


def _chosen(prefix: Path, without: Collection[str]) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    """A filter for the archive. `without`: files and folders below `prefix` that stay out."""
    names = {os.path.relpath(os.path.abspath(each), prefix) for each in without}
    return lambda member: None if member.name in names else member


def _pyspark_folder() -> Path:
    return Path(sysconfig.get_path("purelib"), "pyspark")


def _files_of_pyspark() -> list[str]:
    """A worker imports pyspark from the Spark of its cluster, whatever its environment has."""
    try:
        files = importlib.metadata.files("pyspark") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [str(_pyspark_folder()), *(str(each.locate()) for each in files), *map(str, {_info(each) for each in files})]


def _info(file: importlib.metadata.PackagePath) -> Path:
    """The folder of the package's metadata, or again its file."""
    place = Path(str(file.locate()))
    return place.parent if place.parent.suffix == ".dist-info" else place


def _add_compiled_zip(archive: tarfile.TarFile, prefix: Path, file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="kafkasource-bundle-") as folder:
        compiled = Path(folder, file.name)
        pyspark_zip.write_compiled(file, compiled, named=str(file))
        archive.add(compiled, arcname=str(file.relative_to(prefix)))


def _refuse_what_does_not_move(prefix: Path, file: Path) -> None:
    """Raise KafkaSourceError for an environment whose archive would lack packages and fail late, on the workers."""
    if (prefix / "conda-meta").is_dir():
        raise KafkaSourceError(
            f"{prefix} is a conda environment, which has paths of this machine in it: pack it with conda-pack "
            f"(`conda pack -o {shlex.quote(str(file))}`); docs/clusters.md has the spark-submit line"
        )
    if not (prefix / "pyvenv.cfg").is_file():
        raise KafkaSourceError(
            f"{prefix} is not a virtual environment: make one (`python -m venv`), install kafkasource and what the job "
            "needs there, and run its own `pykafka bundle environment`"
        )
    if "include-system-site-packages = true" in (prefix / "pyvenv.cfg").read_text().lower():
        raise KafkaSourceError(
            f"{prefix} also uses packages outside of it (include-system-site-packages in pyvenv.cfg), which the "
            "archive would lack: make it again without --system-site-packages"
        )
    editable = sorted(each.name for each in importlib.metadata.distributions() if _is_editable(each))
    if editable:
        raise KafkaSourceError(
            f"{', '.join(editable)}: installed as editable, so the archive would lack it: install the wheel instead "
            "(`pip install --force-reinstall /path/to/it`)"
        )
    if prefix not in Path(os.path.abspath(kafkasource.__file__)).parents:
        raise KafkaSourceError(
            f"kafkasource comes from {Path(kafkasource.__file__).parent}, outside of {prefix}, so the archive would "
            "lack it: install it there, and run this command in another folder"
        )


def _is_editable(package: importlib.metadata.Distribution) -> bool:
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _zip(arguments: argparse.Namespace) -> int:
    package, file = Path(kafkasource.__file__).parent, arguments.file.absolute()
    if not package.is_dir():
        raise KafkaSourceError(f"kafkasource is in {package.parent}, a zip already: give that to --py-files")
    content = io.BytesIO()  # a zip's writer goes back in its file, and FILE may be a pipe or /dev/null
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(package.rglob("*")):
            if each.is_file() and each.suffix not in _NOT_IN_A_ZIP:
                archive.write(each, each.relative_to(package.parent))
    with written_whole(file, str(file)) as stream:
        stream.write(content.getbuffer())
    _show(
        arguments,
        [f"spark-submit --py-files {shlex.quote(str(file))} job.py"],
        "job.py must call kafkasource.register(spark). The workers' Python must have pyarrow, google-crc32c and "
        "python-snappy. Records are decoded uncompiled, about a hundred times slower: `pykafka bundle environment` "
        "and a package installed on the workers are not.",
    )
    return 0


def _show(arguments: argparse.Namespace, lines: list[str], note: str) -> None:
    if arguments.json:
        print(json.dumps({"file": str(arguments.file.absolute()), "shell": lines}))
    else:
        print(*lines, sep="\n")
    print(note, file=sys.stderr)
