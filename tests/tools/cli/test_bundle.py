"""The archive of `pykafka bundle environment`: its files and its size."""

import os
import sys
import sysconfig
import tarfile
import zipfile

import pytest

from kafkasource.tools.cli import bundle, main, pyspark_zip

PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
SPARK_ZIP = f"{PACKAGES}/pyspark/python/lib/pyspark.zip"
OF_PYSPARK = {
    f"{PACKAGES}/pyspark/jars/spark.jar",
    f"{PACKAGES}/pyspark-4.2.0.dist-info/RECORD",
    "bin/spark-submit",
    SPARK_ZIP,
}
OTHERS = {"bin/pykafka", "pyvenv.cfg", f"{PACKAGES}/pyarrow/lib.py", f"{PACKAGES}/pyspark_pykafka/__init__.py"}


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A virtual environment with pyspark as pip installs it."""
    prefix = tmp_path / "jobs"
    for name in OF_PYSPARK | OTHERS:
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text("")
    recorded = [os.path.relpath(name, PACKAGES) for name in OF_PYSPARK]
    (prefix / PACKAGES / "pyspark-4.2.0.dist-info" / "RECORD").write_text("".join(f"{name},,\n" for name in recorded))
    (prefix / PACKAGES / "pyspark-4.2.0.dist-info" / "METADATA").write_text("Name: pyspark\nVersion: 4.2.0\n")
    (prefix / PACKAGES / "pyspark" / "not_recorded.pyc").touch()
    with zipfile.ZipFile(prefix / SPARK_ZIP, "w") as archive:
        archive.writestr("pyspark/daemon.py", "x = 1\n")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(prefix / PACKAGES))
    monkeypatch.syspath_prepend(str(prefix / PACKAGES))
    monkeypatch.setattr(bundle, "_refuse_what_does_not_move", lambda prefix, file: None)
    return prefix


def packed(tmp_path, *options):
    """The files of the archive, and the folder into which it was unpacked."""
    assert main(["bundle", "environment", str(tmp_path / "jobs.tar.gz"), *options]) == 0
    with tarfile.open(tmp_path / "jobs.tar.gz") as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
        archive.extractall(tmp_path / "unpacked", filter="tar")
    assert len(names) == len(set(names))
    return set(names), tmp_path / "unpacked"


def test_pyspark_stays_out_and_everything_else_goes_along(environment, tmp_path, capsys):
    names, _ = packed(tmp_path)
    assert names == OTHERS
    assert "jobs.tar.gz: " in capsys.readouterr().err


def test_the_size_of_the_archive_is_printed(environment, tmp_path, capsys):
    packed(tmp_path)
    bytes_of_file = (tmp_path / "jobs.tar.gz").stat().st_size
    assert f"{bytes_of_file} B, without pyspark" in capsys.readouterr().err


def test_with_pyspark_its_zip_holds_compiled_code_and_the_one_here_stays_as_it_is(environment, tmp_path):
    before = (environment / SPARK_ZIP).read_bytes()
    names, folder = packed(tmp_path, "--with-pyspark")
    assert names >= OF_PYSPARK | OTHERS
    assert pyspark_zip.is_compiled(folder / SPARK_ZIP)
    assert (environment / SPARK_ZIP).read_bytes() == before
