"""`pykafka metrics`: what a host's processes have counted, without Spark."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from kafkasource import metrics
from kafkasource.tools.cli import main


def count(folder):
    metrics.count("kafkasource_records_read_total", 5, "command")
    metrics.publish()
    return metrics.process_counts().snapshot().counters["kafkasource_records_read_total", ("command",)]


def read(text):
    families = {one.name: one for one in text_string_to_metric_families(text)}
    return next(s.value for s in families["kafkasource_records_read"].samples if s.labels["topic"] == "command")


def test_it_prints_what_prometheus_reads(metrics_folder, capsys):
    counted = count(metrics_folder)
    assert main(["metrics", str(metrics_folder)]) == 0
    assert read(capsys.readouterr().out) == counted


def test_it_prints_json(metrics_folder, capsys):
    counted = count(metrics_folder)
    assert main(["metrics", str(metrics_folder), "--json"]) == 0
    row = {"name": "kafkasource_records_read_total", "labels": {"topic": "command"}, "value": counted}
    assert row in json.loads(capsys.readouterr().out)


def test_a_folder_that_is_not_there_is_said(tmp_path, capsys):
    assert main(["metrics", str(tmp_path / "none")]) == 1
    assert "no folder" in capsys.readouterr().err


def test_a_token_file_that_cannot_be_read_or_has_no_token_is_named(metrics_folder, tmp_path, capsys):
    file = tmp_path / "token"
    serve = ["metrics", str(metrics_folder), "--port", "0", "--token-file", str(file)]
    assert main(serve) == 1
    assert f"--token-file {file}: " in capsys.readouterr().err
    file.write_text("\n")
    assert main(serve) == 1
    assert "the file of --token-file" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(metrics_folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["metrics", str(metrics_folder), "--port", str(port)]) == 1
    assert f"port {port}: " in capsys.readouterr().err


def test_it_serves_until_it_is_ended(metrics_folder):
    counted = count(metrics_folder)
    command = [sys.executable, "-m", "kafkasource", "metrics", "--port", "0"]
    environment = {**os.environ, "KAFKASOURCE_METRICS_DIR": str(metrics_folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as serving:
        try:
            url = re.search(r"http://\S+", serving.stderr.readline())[0]
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert read(answer.read().decode()) == counted
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0


WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
from kafkasource.tools.cli import main
sys.exit(main(["metrics", sys.argv[1], "--json"]))
"""


def test_it_needs_no_pyspark(tmp_path):
    command = [sys.executable, "-c", WITHOUT_PYSPARK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
