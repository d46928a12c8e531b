"""Compiled code in Spark's pyspark.zip: doctor's findings, and the modules that Python imports after `doctor --fix`."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from kafkasource.spark import releases
from kafkasource.tools.cli import main, pyspark_zip

# Modules as in the real file: a package, a module that imports another, a test, a file of another Python.
MODULES = {
    "pyspark/__init__.py": "",
    "pyspark/daemon.py": "import pyspark.util\n",
    "pyspark/util.py": "def f():\n  pass\n\nHERE = f.__code__.co_filename\n",
    "pyspark/worker.py": "VALUE = 1\n",
    "pyspark/sql/__init__.py": "",
    "pyspark/sql/tests/test_any.py": "x = 1\n",
    "pyspark/newer.py": "match = = 1\n",
}
# Python's own import of a zip, which must not compile anything.
NO_SOURCE = "import zipimport; zipimport._compile_source = None; "


@pytest.fixture
def spark_zip(tmp_path, monkeypatch):
    """The file of a Spark that SPARK_HOME names."""
    file = tmp_path / "spark" / "python" / "lib" / "pyspark.zip"
    file.parent.mkdir(parents=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in MODULES.items():
            archive.writestr(name, source)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setattr("kafkasource.tools.cli.doctor.machine_findings", lambda job: [])
    return file


def doctor(capsys, *options):
    code = main(["doctor", "--json", *options])
    findings = [finding for finding in json.loads(capsys.readouterr().out) if finding["what"] == "spark's start"]
    return code, *findings


def run_with(file, program, **variables):
    environment = {**os.environ, "PYTHONPATH": str(file), **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.splitlines()[-1]


def test_doctor_warns_of_a_pyspark_zip_without_compiled_code_and_names_the_error_that_it_leads_to(spark_zip, capsys):
    code, finding = doctor(capsys)
    assert (code, finding["level"]) == (0, "warning")
    assert finding["found"].startswith(f"{spark_zip} holds no compiled code")
    assert "Python worker failed to connect back" in finding["found"]
    assert finding["remedy"].startswith("pykafka doctor --fix")


def test_who_may_not_write_the_folder_is_told_which_command_another_user_runs(spark_zip, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    _, finding = doctor(capsys)
    assert (
        f"run {sys.executable} -m kafkasource doctor --fix as a user who may write {spark_zip.parent}"
        in finding["remedy"]
    )


def test_after_fix_python_compiles_nothing_of_pyspark_in_any_time_zone(spark_zip, capsys):
    use = f"{NO_SOURCE} import pyspark.daemon, pyspark.worker; print(pyspark.util.HERE)"
    assert "not callable" in run_with(spark_zip, use)
    assert doctor(capsys, "--fix")[1]["level"] == "ok"
    for zone in ("UTC", "Asia/Kolkata", "America/Los_Angeles"):
        assert run_with(spark_zip, use, TZ=zone) == f"{spark_zip}/pyspark/util.py"
    assert doctor(capsys)[1]["level"] == "ok"


def test_the_sources_stay_in_the_file_and_no_test_is_compiled(spark_zip, capsys):
    doctor(capsys, "--fix")
    with zipfile.ZipFile(spark_zip) as archive:
        assert {name: archive.read(name).decode() for name in MODULES} == MODULES
        compiled = {name for name in archive.namelist() if name.endswith(".pyc")}
    assert compiled == {f"{name}c" for name in MODULES if "tests" not in name and "newer" not in name}


def test_the_command_that_fix_prints_brings_the_file_back(spark_zip, capsys):
    before = spark_zip.read_bytes()
    _, finding = doctor(capsys, "--fix")
    assert spark_zip.read_bytes() != before
    subprocess.run(shlex.split(finding["found"].partition("to undo: ")[2]), check=True)
    assert (spark_zip.read_bytes(), os.listdir(spark_zip.parent)) == (before, ["pyspark.zip"])


def test_a_process_that_runs_during_the_fix_goes_on_importing(spark_zip, capsys):
    """A daemon of Spark's has read the file's directory, and its children import the worker later."""
    program = (
        "import sys, pyspark.daemon; print(flush=True); sys.stdin.read(1); import pyspark.worker as w; print(w.VALUE)"
    )
    environment = {**os.environ, "PYTHONPATH": str(spark_zip)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        running.stdout.readline()
        doctor(capsys, "--fix")
        out, _ = running.communicate("x", timeout=60)
    assert out.strip() == "1"


def test_compiled_code_of_another_python_is_warned_of_and_replaced(spark_zip, capsys, monkeypatch):
    with monkeypatch.context() as another:
        another.setattr(importlib.util, "MAGIC_NUMBER", b"\x01\x02\r\n")
        assert doctor(capsys, "--fix")[1]["level"] == "ok"
    assert run_with(spark_zip, "import pyspark.worker; print('by its source')") == "by its source"
    assert doctor(capsys)[1]["level"] == "warning"
    assert doctor(capsys, "--fix")[1]["level"] == "ok"
    with zipfile.ZipFile(spark_zip) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist()))
    assert run_with(spark_zip, f"{NO_SOURCE} import pyspark.worker; print('compiled')") == "compiled"


def test_a_newer_pyspark_is_kept_as_the_original_in_its_turn(spark_zip, capsys):
    doctor(capsys, "--fix")
    with zipfile.ZipFile(spark_zip, "w") as archive:  # as pip writes it
        archive.writestr("pyspark/daemon.py", "NEWER = True\n")
    newer = spark_zip.read_bytes()
    assert doctor(capsys)[1]["level"] == "warning"
    assert doctor(capsys, "--fix")[1]["level"] == "ok"
    assert pyspark_zip.original_of(spark_zip).read_bytes() == newer


def test_a_file_that_cannot_be_read_is_a_failure_and_stays(spark_zip, capsys):
    spark_zip.write_bytes(b"no zip")
    code, finding = doctor(capsys, "--fix")
    assert (code, finding["level"]) == (1, "FAILED")
    assert str(spark_zip) in finding["found"]
    assert os.listdir(spark_zip.parent) == ["pyspark.zip"]


def test_a_link_to_the_installed_package_needs_nothing(spark_zip, capsys):
    spark_zip.unlink()
    spark_zip.symlink_to(Path(__file__).parent)
    assert doctor(capsys, "--fix")[1]["level"] == "ok"
    assert spark_zip.is_symlink()


def test_nothing_is_said_where_spark_brings_no_such_file(spark_zip, capsys):
    spark_zip.unlink()
    assert doctor(capsys) == (0,)


@pytest.mark.parametrize("named_by", [None, "LD_LIBRARY_PATH", "HADOOP_HOME"])
def test_doctor_names_the_setting_for_local_checkpoints_where_hadoop_lacks_its_library(
    named_by, spark_zip, tmp_path, monkeypatch, capsys
):
    for name in ("LD_LIBRARY_PATH", "JAVA_LIBRARY_PATH", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "lib" / "native"
    folder.mkdir(parents=True)
    (folder / "libhadoop.so").touch()
    if named_by is not None:
        monkeypatch.setenv(named_by, str(tmp_path if named_by == "HADOOP_HOME" else folder))
    assert main(["doctor", "--json"]) == 0
    found = [finding for finding in json.loads(capsys.readouterr().out) if finding["what"] == "checkpoints"]
    setting = f"--conf spark.sql.streaming.checkpointFileManagerClass={releases.CHECKPOINT_FILE_MANAGER}"
    assert [setting in finding["remedy"] for finding in found] == ([True] if named_by is None else [])


def test_spark_has_the_class_that_writes_local_checkpoints():
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-sql_2.13-*.jar")
    with zipfile.ZipFile(jar) as archive:
        assert f"{releases.CHECKPOINT_FILE_MANAGER.replace('.', '/')}.class" in archive.namelist()
