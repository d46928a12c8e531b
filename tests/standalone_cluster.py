"""A standalone Spark cluster on loopback: a master and workers of one core each, from pyspark's own classes.

The cluster and what it writes end with the context manager.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from java_programs import SHORT_LIVED_JVM
from spark_processes import SparkProcess, spark_home

from kafkasource.testing.broker.properties import free_ports


@dataclass
class StandaloneCluster:
    folder: Path
    url: str
    page: str
    workers: list[SparkProcess] = field(default_factory=list)

    def command(self, job: Path, *arguments: str, submit: tuple[str, ...] = ()) -> list[str]:
        """spark-submit for a job whose executors are on the workers."""
        spark_submit = spark_home() / "bin" / "spark-submit"
        command = [str(spark_submit), "--master", self.url, "--executor-memory", "512m", "--driver-memory", "512m"]
        command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", f"spark.local.dir={self.folder / 'local'}"]
        return [*command, *submit, str(job), *arguments]

    def alive_workers(self) -> int:
        """As the master counts them. -1: it does not say yet; while it starts, its page answers at every path."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
            if answer.headers.get_content_subtype() != "json":
                return -1
            return sum(each["state"] == "ALIVE" for each in json.load(answer)["workers"])


@contextlib.contextmanager
def standalone_cluster(workers: int = 2, python_path: str = "") -> Iterator[StandaloneCluster]:
    """A master and so many workers, all of them registered. `python_path`: what their Python finds besides."""
    with tempfile.TemporaryDirectory(prefix="spark-cluster-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        port, page_port = free_ports(2)
        cluster = StandaloneCluster(folder, f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{page_port}")
        address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page_port)]
        environment = {**os.environ, "SPARK_HOME": str(spark_home()), "PYTHONPATH": python_path}
        environment |= {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JVM}
        started = contextlib.ExitStack()

        def start(name: str, java_class: str, *arguments: str) -> SparkProcess:
            command = ["spark-class", f"org.apache.spark.deploy.{java_class}", *arguments]
            return started.enter_context(SparkProcess(command, environment, folder, name))

        with started:
            master = start("master", "master.Master", *address)
            master.wait_for(lambda: cluster.alive_workers() == 0)
            for number in range(workers):
                name = f"worker-{number}"
                size = ["--host", "127.0.0.1", "--cores", "1", "--memory", "640M", "--webui-port", "0"]
                where = ["--work-dir", str(folder / name), cluster.url]
                cluster.workers.append(start(name, "worker.Worker", *size, *where))
            master.wait_for(lambda: cluster.alive_workers() == workers)
            yield cluster
