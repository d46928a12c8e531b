"""`register` and the Python that Spark will start: it refuses one that lacks us, and leaves one that knows us."""

import contextlib
import os
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest
from pyspark.core.files import SparkFiles

import kafkasource
from kafkasource.errors import KafkaSourceError
from kafkasource.spark import workers


@pytest.fixture
def bare_python(tmp_path, monkeypatch):
    """An interpreter without packages of its own, in another folder than that of this package."""
    program = tmp_path / "bare-python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", str(program))
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "files"))
    workers._lacks.cache_clear()
    return str(program)


def session(python, *, files=(), found=True, driver=None, master="local[2]"):
    """A session whose workers are this Python; `found` by name, in a JVM whose PYSPARK_DRIVER_PYTHON is `driver`."""
    variables = {"PYSPARK_DRIVER_PYTHON": driver}
    registered = []
    manager = SimpleNamespace(dataSourceExists=lambda name: found)
    return SimpleNamespace(
        _sc=SimpleNamespace(
            pythonExec=python,
            master=master,
            environment={},
            _python_includes=list(files),
            _jvm=SimpleNamespace(System=SimpleNamespace(getenv=variables.get)),
        ),
        _jsparkSession=SimpleNamespace(sessionState=lambda: SimpleNamespace(dataSourceManager=lambda: manager)),
        conf=SimpleNamespace(get=lambda name, default: default),
        dataSource=SimpleNamespace(register=registered.append),
        registered=registered,
    )


def test_a_python_without_the_package_is_refused_by_its_name_with_what_it_lacks(bare_python):
    spark = session(bare_python)
    with pytest.raises(KafkaSourceError) as refused:
        kafkasource.register(spark)
    assert f"PYSPARK_PYTHON={bare_python}: {bare_python} has no kafkasource and no pyarrow" in str(refused.value)
    assert sys.executable in str(refused.value)
    assert spark.registered == []


def test_a_package_that_comes_by_py_files_counts(bare_python, tmp_path):
    (tmp_path / "files").mkdir()
    with zipfile.ZipFile(tmp_path / "files" / "ours.zip", "w") as archive:
        for name in ("kafkasource", "pyarrow"):
            archive.writestr(f"{name}/__init__.py", "")
    workers.prepare(session(bare_python, files=["ours.zip"]))


def test_a_package_on_pythonpath_counts(bare_python, tmp_path, monkeypatch):
    for name in ("kafkasource", "pyarrow"):
        (tmp_path / "here" / name).mkdir(parents=True)
        (tmp_path / "here" / name / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "here"))
    workers.prepare(session(bare_python))


def test_this_python_is_not_asked_and_another_one_once(bare_python, monkeypatch):
    asked = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **more: asked.append(a[0][0]) or run(*a, **more))
    for python in (sys.executable, bare_python, bare_python):
        with contextlib.suppress(KafkaSourceError):
            workers.prepare(session(python))
    assert asked == [bare_python]


@pytest.mark.parametrize(("named", "used"), [("python3", "python3"), ("", sys.executable)])
def test_a_local_session_uses_this_python_unless_the_environment_names_one(named, used, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", named)
    context = session("python3")._sc
    workers._use_this_python(context)
    assert context.pythonExec == used


@pytest.fixture
def first_call(monkeypatch):
    monkeypatch.setattr(kafkasource, "_has_registered", False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


def test_spark_is_not_told_again_of_what_it_has_found_and_a_second_call_registers(first_call):
    """Spark warns whenever a registration replaces another; queries may want registrations of their own."""
    spark = session(sys.executable, driver=sys.executable)
    kafkasource.register(spark)
    assert spark.registered == []
    kafkasource.register(spark)
    assert [each.name() for each in spark.registered] == ["pykafka"]


@pytest.mark.parametrize(
    "found",
    [
        {"found": False, "driver": sys.executable},
        {"driver": os.devnull},  # Spark looked in another Python
        {"driver": f"{os.path.dirname(sys.executable)}/./{os.path.basename(sys.executable)}", "master": "spark://m:1"},
    ],
    ids=["not found", "by another Python", "on a cluster by another name"],
)
def test_the_format_is_registered_where_spark_has_not_found_it_in_the_same_python(found, first_call):
    spark = session(sys.executable, **found)
    kafkasource.register(spark)
    assert [each.name() for each in spark.registered] == ["pykafka"]


def test_a_spark_without_the_insides_that_are_asked_registers(first_call):
    spark = session(sys.executable)
    del spark._jsparkSession
    kafkasource.register(spark)
    assert len(spark.registered) == 1
