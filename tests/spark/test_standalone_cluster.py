"""Jobs on a standalone cluster: executors are processes of other JVMs, with the Python that spark-submit names."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from killed_copies import Application
from spark_processes import ROOT, environment_with, python_environment, python_of
from standalone_cluster import standalone_cluster

from kafkasource.tools.cli import main

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
JOB = Path(__file__).parent / "cluster_job.py"
COMPILED, FROM_ZIP = "False True", "True False"


@pytest.fixture(scope="module")
def cluster():
    with standalone_cluster(workers=2) as started:
        yield started


@pytest.fixture
def submit(cluster, kafka_broker, kafka_topic, tmp_path):
    """Runs the job; what it printed, as a value."""

    def run(python, how, *options, driver=None, succeeds=True, **variables):
        topics = [kafka_topic(partitions=2), kafka_topic(partitions=2)]
        arguments = [kafka_broker.bootstrap_servers, *topics, str(tmp_path / "checkpoint"), how]
        command = cluster.command(JOB, *arguments, submit=options)
        environment = environment_with(python) | ({"PYSPARK_DRIVER_PYTHON": driver} if driver else {}) | variables
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
        assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1]) if succeeds else done.stdout

    return run


def test_a_package_in_the_workers_python_is_found_without_register_and_runs_compiled(submit, tmp_path):
    environment = python_environment(tmp_path / "workers", with_kafkasource=True)
    assert submit(python_of(environment), "found") == {"rows": 2000, "distinct": 2000, "kernel": [COMPILED] * 2}


def test_the_zip_that_bundle_writes_serves_batches_and_streams_uncompiled(submit, tmp_path, capsys):
    environment = python_environment(tmp_path / "workers", with_kafkasource=False)
    assert main(["bundle", "zip", str(tmp_path / "ours.zip")]) == 0
    assert f"--py-files {tmp_path / 'ours.zip'}" in capsys.readouterr().out
    ran = submit(python_of(environment), "register", "--py-files", str(tmp_path / "ours.zip"))
    assert ran == {"rows": 2000, "distinct": 2000, "kernel": [FROM_ZIP] * 2}


def test_the_archive_that_bundle_writes_brings_the_compiled_package_by_the_printed_line(submit, cluster, tmp_path):
    environment = python_environment(tmp_path / "packed", with_kafkasource=True)
    archive = tmp_path / "environment.tar.gz"
    bundle = "import sys; from kafkasource.tools.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [python_of(environment), "-c", bundle, "bundle", "environment", str(archive), "--json"]
    own = environment_with(python_of(environment))
    bundled = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=True)
    printed = json.loads(bundled.stdout)
    (line,) = printed["shell"]
    path, python, command, *options, job = shlex.split(line)
    assert (python, command, job) == ("PYSPARK_PYTHON=python", "spark-submit", "job.py")
    assert path == f"PATH={environment}/bin:$PATH"

    ran = submit("python", "found", *options, PATH=f"{environment}/bin:{os.environ['PATH']}")
    assert ran == {"rows": 2000, "distinct": 2000, "kernel": [COMPILED] * 2}
    said = "".join(log.read_text() for log in cluster.folder.glob("worker-*/app-*/*/stderr"))
    used = set(re.findall("executor's Python is in (.*)", said))
    unpacked = {each for each in used if each.startswith(f"{cluster.folder}/worker-") and each.endswith("/environment")}
    assert unpacked, used
    assert str(environment) not in used


def test_the_settings_for_a_cluster_are_read_beside_those_for_every_job_by_the_documented_line(submit):
    files = [ROOT / "spark-conf" / name for name in ("spark-defaults.conf", "cluster.conf")]
    lines = "\n".join(file.read_text() for file in files).splitlines()
    settings = [line.split(maxsplit=1) for line in lines if line and line[0] != "#"]
    written = {name: value for name, value in settings if "redaction" not in name}  # Java takes their backslashes away
    document = (ROOT / "docs" / "clusters.md").read_text()
    (line,) = re.findall(r"^SPARK_CONF_DIR=spark-conf spark-submit (.*) job\.py$", document, re.MULTILINE)
    options = line.replace("spark-conf/", f"{ROOT}/spark-conf/").split()
    took = submit(sys.executable, "settings", *options, SPARK_CONF_DIR=f"{ROOT}/spark-conf", PYTHONPATH=str(ROOT))
    assert {name: took.get(name) for name in written} == written


def test_a_python_that_only_the_workers_have_is_refused_by_its_name_with_the_remedy(submit, tmp_path):
    environment = python_environment(tmp_path / "drivers", with_kafkasource=True)
    error = submit("./environment/bin/python", "register", driver=python_of(environment), succeeds=False)
    (said,) = [line for line in error.splitlines() if "KafkaSourceError: " in line]
    assert "PYSPARK_PYTHON=./environment/bin/python: there is no such file in" in said
    assert "spark.executorEnv.PATH=./environment/bin:" in said


def test_a_worker_that_is_killed_costs_an_exactly_once_query_no_record_and_doubles_none(kafka_broker):
    queries = {"exactly_once": {"deliveryGuarantee": "exactly_once"}, "at_least_once": {}}
    with standalone_cluster(workers=2, python_path=os.fspath(ROOT)) as cluster:
        application = Application(kafka_broker.bootstrap_servers, queries, master=cluster.url)
        try:
            application.goes_on()
            cluster.workers[0].kill()
            application.goes_on()
            application.finish()
        finally:
            application.close()
    assert application.lost_and_doubled("exactly_once") == (0, 0)
    assert application.lost_and_doubled("at_least_once")[0] == 0
