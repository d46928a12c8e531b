"""Runs secrets_app.py with everything recorded that a Spark job can leave behind, and searches it for secrets.

FOLDER/left/        stdout, stderr, logs, event log, checkpoint, metrics, pages and REST of the UI, command lines
FOLDER/left/local   Spark's own temporary files: pickles of what it sends to executors are among them
"""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from spark_processes import linked_spark_home

ROOT = Path(__file__).parent.parent.parent
APP = Path(__file__).with_name("secrets_app.py")
PATIENCE_S = 1500.0  # for what must happen on however slow a machine
_MOST_PAGES = 400
_LOG = """
logger.spark.name = org.apache.spark
logger.spark.level = debug
logger.codegen.name = org.apache.spark.sql.catalyst.expressions.codegen
logger.codegen.level = info
# At DEBUG these log whole statements, plans and spark.executorEnv, as docs/secrets.md says.
logger.registration.name = org.apache.spark.sql.DataSourceRegistration
logger.registration.level = info
logger.holder.name = org.apache.spark.sql.connect.service.SessionHolder
logger.holder.level = info
logger.parser.name = org.apache.spark.sql.execution.SparkSqlParser
logger.parser.level = info
logger.netty.name = org.apache.spark.network
logger.netty.level = info
"""


def run(folder, given, *, settings=None, files=(), environment=None):
    """Run the job to its end; gives the outcome of each of its parts. `files`: what spark-submit ships."""
    left = folder / "left"
    (left / "events").mkdir(parents=True)
    (folder / "given.json").write_text(json.dumps(given))
    with _started(folder, given, settings or {}, files, environment or {}) as process, _command_lines(left):
        _wait(lambda: (folder / "outcomes").exists() or process.poll() is not None)
        assert process.poll() is None, (left / "output").read_text()[-5000:]
        _save_pages(left, (folder / "metrics").read_text())
        (folder / "end").touch()
        process.wait(PATIENCE_S)
    return json.loads((folder / "outcomes").read_text())


def files_with(folder, secret):
    """The files below the folder, by their paths in it, that hold the secret in any spelling that hides nothing."""
    spellings = _spellings(secret)
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if any(each in data for each in spellings):
                found.append(str(path.relative_to(folder)))
    return found


def _spellings(secret):
    plain = secret.encode()
    encoded = [plain, secret.encode("utf-16-le"), plain.hex().encode(), urllib.parse.quote(secret).encode()]
    encoded += [html.escape(secret).encode(), json.dumps(secret)[1:-1].encode()]
    encoded.append(", ".join(map(str, plain)).encode())  # bytes as Scala prints them
    for before in range(3):  # base64 of a text that holds it, at each of the three positions
        encoded.append(base64.b64encode(b"x" * before + plain)[4 if before else 0 : -4])
    return encoded


@contextlib.contextmanager
def _started(folder, given, settings, files, environment):
    left, conf = folder / "left", folder / "conf"
    conf.mkdir()
    for each in (ROOT / "spark-conf").iterdir():
        (conf / each.name).write_text(each.read_text())
    with (conf / "log4j2.properties").open("a") as log:
        log.write(_LOG)
    with (conf / "spark-defaults.conf").open("a") as defaults:
        for name, text in (_settings(left) | settings).items():
            defaults.write(f"{name} {text}\n")
    home = _spark_home(folder)
    command = [sys.executable, str(APP), str(folder)]
    if not given["connect"]:
        shipped = ["--files", ",".join(map(str, files))] if files else []
        command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[1,2,1024]", *shipped, *command[1:]]
    (left / "tmp").mkdir()
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    told = {
        "PYTHONPATH": path,
        "SPARK_CONF_DIR": str(conf),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(left / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "KAFKASOURCE_LOG": "DEBUG",
        "JAVA_TOOL_OPTIONS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Djava.io.tmpdir={left}/tmp",
        "TMPDIR": str(left / "tmp"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if given["connect"]:
        # Any free port for the server; without a UI, unless it is asked for.
        told |= {"SPARK_TESTING": "1", "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=true pyspark-shell"}
    whole = {**os.environ, **told, **environment}
    whole.pop("SPARK_REMOTE", None)
    with (left / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=whole, cwd=left / "tmp", start_new_session=True
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _settings(left):
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{left}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": f"{left}/warehouse",
        "spark.ui.port": str(_free_port()),
        "spark.task.maxFailures": "1",
        "spark.executor.memory": "512m",
    }


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _spark_home(folder):
    home, work = linked_spark_home(folder / "spark"), folder / "left" / "work"
    work.mkdir()
    (home / "work").symlink_to(work)
    return home


@contextlib.contextmanager
def _command_lines(left):
    """Records the command lines of all processes of the machine, as `ps` shows them."""
    ended, seen = threading.Event(), set()

    def look():
        while not ended.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(path.read_bytes().replace(b"\0", b" "))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        (left / "ps").write_bytes(b"\n".join(sorted(seen)))


def _save_pages(left, metrics):
    pages = left / "ui"
    pages.mkdir()
    port = re.findall(r"(?m)^spark.ui.port (\d+)$", (left.parent / "conf" / "spark-defaults.conf").read_text())[0]
    base, metrics = f"http://127.0.0.1:{port}", metrics.rstrip("/") + "/"
    (application,) = [each["id"] for each in json.loads(_page(f"{base}/api/v1/applications"))]
    rest = f"{base}/api/v1/applications/{application}"
    wanted = [f"{base}/{name}/" for name in ("jobs", "stages", "environment", "executors", "SQL", "StreamingQuery")]
    wanted += [f"{base}/connect/", f"{base}/metrics/prometheus", metrics, f"{metrics}metrics", f"{metrics}api/queries"]
    wanted += [
        f"{rest}/{name}" for name in ("jobs", "environment", "allexecutors", "storage/rdd", "streaming/statistics")
    ]
    wanted += [
        f"{rest}/sql?details=true&planDescription=true&length=1000",
        f"{rest}/stages?details=true&withSummaries=true",
    ]
    seen = set()
    while wanted and len(seen) < _MOST_PAGES:
        url = wanted.pop(0)
        if url in seen:
            continue
        seen.add(url)
        page = _page(url)
        (pages / f"{len(seen):03} {urllib.parse.quote(url.partition('//')[2], safe='')[:180]}").write_bytes(page)
        for link in re.findall(rb'href="(/[^"]*)"', page):
            target = html.unescape(link.decode()).replace(" ", "%20")
            if url.startswith(base) and not re.search(r"/(static|kill|api)\b|threadDump|heap|\.(js|css|png)", target):
                wanted.append(base + target)


def _page(url):
    """The server's answer, also with an error."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return error.read()


def _wait(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
