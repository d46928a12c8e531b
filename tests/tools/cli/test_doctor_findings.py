"""Findings of `pykafka doctor` about this machine, with other Pythons in Spark's place."""

import contextlib
import json
import os
import socket
import stat
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from kafkasource import __version__
from kafkasource.errors import ConnectFailed
from kafkasource.kafka.cluster.visit import AddressCheck
from kafkasource.kafka.security.tls.certificates import Certificate
from kafkasource.tools.cli import main
from kafkasource.tools.cli.doctor import machine
from kafkasource.tools.cli.doctor.addresses import of_address, of_certificate


@pytest.fixture(autouse=True)
def no_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def python_that_says(tmp_path, monkeypatch):
    """Make Spark start a program that answers with this text."""

    def make(text, code=0, variable="PYSPARK_PYTHON"):
        path = tmp_path / f"python-of-{variable}"
        path.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv(variable, str(path))
        return str(path)

    return make


def says(version, package=__version__, compiled=True, by_name=True):
    facts = {"version": list(version), "package": package, "compiled": compiled, "by_name": by_name}
    return json.dumps(facts)


OURS = sys.version_info[:2]


@pytest.mark.parametrize(
    ("answer", "level", "said"),
    [
        (says(OURS), "ok", "PYSPARK_PYTHON="),
        (says((3, 8)), "FAILED", "Spark needs the same version"),
        (says(OURS, package=None), "warning", "has no kafkasource"),
        (says(OURS, by_name=False), "warning", "register(spark)"),
        (says(OURS, compiled=False), "warning", "not compiled"),
        ("Segmentation fault", "FAILED", "does not run"),
    ],
)
def test_the_python_that_spark_will_start_is_asked(answer, level, said, python_that_says):
    path = python_that_says(answer)
    finding = machine.workers_python()
    assert (finding.level, said in finding.found, path in finding.found) == (level, True, True)
    assert bool(finding.remedy) == (level != "ok")


def test_where_this_python_has_no_spark_the_python_of_workers_is_no_failure(python_that_says, monkeypatch):
    """Somebody uses the client without Spark, or a cluster brings its own."""
    python_that_says(says((3, 8)))
    monkeypatch.setattr(machine, "_version_of_pyspark", lambda: None)
    assert [finding.level for finding in machine.machine_findings() if "spark" in finding.what] == [
        "warning",
        "ok",
        "warning",
    ]


@pytest.mark.parametrize(
    ("files", "level", "said"),
    [
        ([], "FAILED", "it has no bin/spark-submit, so no Spark starts"),
        (["bin/spark-submit", "jars/spark-core_2.13-4.1.4.jar"], "warning", "which is 4.1.4"),
        (["bin/spark-submit", "jars/spark-core_2.13-4.2.0.jar"], "ok", "SPARK_HOME"),
        (["bin/spark-submit"], "ok", "SPARK_HOME"),
    ],
)
def test_the_spark_that_spark_home_names_is_looked_at(files, level, said, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_version_of_pyspark", lambda: "4.2.0")
    home = tmp_path / "spark"
    for name in files:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    (finding,) = [finding for finding in machine.machine_findings() if finding.what == "pyspark"]
    assert (finding.level, bool(finding.remedy)) == (level, level != "ok")
    assert said in finding.found
    assert str(home) in finding.found


@pytest.mark.parametrize("slow", [*machine.KERNELS])
def test_each_kernel_that_is_not_compiled_is_named(slow, monkeypatch, capsys):
    finding = kernel_of_doctor(monkeypatch, capsys, {name: (name != slow, False) for name in machine.KERNELS})
    assert (finding["level"], bool(finding["remedy"])) == ("warning", True)
    assert finding["found"] == f"not compiled, and so about a hundred times slower: {machine.KERNELS[slow]}"


@pytest.mark.parametrize("stale", [*machine.KERNELS])
def test_each_kernel_that_was_built_of_other_sources_is_named(stale, monkeypatch, capsys):
    finding = kernel_of_doctor(monkeypatch, capsys, {name: (True, name == stale) for name in machine.KERNELS})
    assert (finding["level"], bool(finding["remedy"])) == ("warning", True)
    assert f"not compiled from the kafkasource/{stale.replace('.', '/')}/kernel.py" in finding["found"]


def kernel_of_doctor(monkeypatch, capsys, states):
    """Doctor's finding for kernels with these states. `states`: (compiled, stale) by package."""
    for name, (compiled, stale) in states.items():
        monkeypatch.setattr(f"kafkasource.{name}.COMPILED", compiled)
        monkeypatch.setattr(f"kafkasource.{name}.STALE", stale)
    main(["doctor", "--json"])
    (finding,) = [finding for finding in json.loads(capsys.readouterr().out) if finding["what"] == "kernel"]
    return finding


def test_doctor_looks_at_every_kernel_of_the_package():
    package = Path(machine.__file__).parents[3]
    assert sorted(machine.KERNELS) == sorted(
        ".".join(path.parent.relative_to(package).parts) for path in package.rglob("kernel.pxd")
    )


REGISTERS = "import kafkasource\nkafkasource.register(spark)\n"
REGISTERS_BY_NAME = "from kafkasource import register as known\nknown(spark)\n"
REGISTERS_ANOTHER = "import kafkasource, atexit\natexit.register(print)  # kafkasource.register(spark)\n"


@pytest.mark.parametrize(
    ("program", "says_it"), [(REGISTERS, True), (REGISTERS_BY_NAME, True), (REGISTERS_ANOTHER, False)]
)
def test_a_job_that_registers_the_format_has_its_own_python_for_workers(program, says_it, tmp_path, capsys):
    job = tmp_path / "job.py"
    job.write_text(program)
    main(["doctor", str(job)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "spark's python" in line]
    assert (f"{sys.executable}, from kafkasource.register in job.py, for a local master" in line) == says_it
    assert ("python3 of the PATH" in line) != says_it


def test_an_interpreter_that_the_environment_names_comes_before_that_of_the_job(tmp_path, python_that_says, capsys):
    job = tmp_path / "job.py"
    job.write_text(REGISTERS)
    path = python_that_says(says(OURS))
    main(["doctor", str(job)])
    assert f"{path}, from PYSPARK_PYTHON={path}" in capsys.readouterr().out


def test_the_driver_is_the_python_of_its_own_variable_and_the_workers_are_not(python_that_says):
    of_driver = python_that_says(says(OURS), variable="PYSPARK_DRIVER_PYTHON")
    of_workers = python_that_says(says(OURS))
    driver, workers = machine.driver_python(), machine.workers_python()
    assert (driver.level, workers.level) == ("ok", "ok")
    assert f"{of_driver}, from PYSPARK_DRIVER_PYTHON=" in driver.found
    assert f"{of_workers}, from PYSPARK_PYTHON=" in workers.found


def test_the_driver_is_the_python_of_the_workers_where_nothing_else_is_named(python_that_says):
    of_workers = python_that_says(says(OURS))
    assert f"PYSPARK_PYTHON={of_workers}, as the workers" in machine.driver_python().found


def test_workers_are_python3_of_the_path_where_only_the_drivers_python_is_named(python_that_says):
    python_that_says(says(OURS), variable="PYSPARK_DRIVER_PYTHON")
    assert "python3 of the PATH" in machine.workers_python().found


@pytest.mark.parametrize(
    ("answer", "job", "level", "said"),
    [
        (says(OURS, package=None, by_name=False), None, "warning", "finds no format('pykafka')"),
        (says(OURS, package=None, by_name=False), "job.py", "ok", "spark-submit"),
        (says((3, 8)), "job.py", "FAILED", "Spark needs the same version"),
        ("Segmentation fault", "job.py", "FAILED", "does not run"),
    ],
)
def test_the_drivers_python_is_asked_too(answer, job, level, said, python_that_says):
    path = python_that_says(answer, variable="PYSPARK_DRIVER_PYTHON")
    finding = machine.driver_python(job)
    assert (finding.level, said in finding.found, path in finding.found) == (level, True, True)
    assert bool(finding.remedy) == (level != "ok")


@pytest.mark.parametrize("asked", [machine.driver_python, machine.workers_python])
def test_register_is_no_advice_for_a_named_python_without_the_package(asked, python_that_says):
    """`register` does not replace PYSPARK_PYTHON, and a driver without the package cannot call it."""
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        python_that_says(says(OURS, package=None, by_name=False), variable=variable)
    remedy = asked().remedy
    assert "register" not in remedy
    assert "install kafkasource there" in remedy


def test_jupyter_as_driver_is_no_failure(tmp_path, monkeypatch):
    (tmp_path / "jupyter").write_text("#!/bin/sh\necho No such file or directory: -c\nexit 1\n")
    (tmp_path / "jupyter").chmod(0o755)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", str(tmp_path / "jupyter"))
    assert machine.driver_python().level == "warning"


def test_a_python_of_an_archive_is_found_beside_the_job(tmp_path, monkeypatch):
    (tmp_path / "environment").symlink_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    finding = machine.workers_python()
    assert finding.level != "FAILED", finding


def test_a_job_that_is_no_program_is_an_error_that_names_it(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "nowhere.py")]) != 0
    assert "nowhere.py: cannot be read" in capsys.readouterr().err


def test_a_python_that_is_not_there_is_a_failure_with_its_remedy(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    finding = machine.workers_python()
    assert (finding.level, finding.remedy) == ("FAILED", f"export PYSPARK_PYTHON={sys.executable}")


def test_what_failed_makes_the_exit_code_1_and_every_line_has_its_remedy(python_that_says, capsys):
    python_that_says(says((3, 8)))
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith("FAILED   spark's python")]
    assert lines[place + 1].strip() == f"→ export PYSPARK_PYTHON={sys.executable}"


@pytest.mark.parametrize("named_by", ["-F", "KAFKA_COMMAND_CONFIG"])
@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), ("client.id=\\u12\n", "needs four hexadecimal digits")],
    ids=["missing", "malformed"],
)
def test_a_file_of_options_that_is_wrong_is_a_failure_and_not_no_cluster(
    named_by, text, said, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "client.properties"
    if text is not None:
        file.write_text(text)
    if named_by != "-F":
        monkeypatch.setenv(named_by, str(file))
    code = main(["doctor", "--json", *(["-F", str(file)] if named_by == "-F" else [])])
    out, err = capsys.readouterr()
    assert out.startswith("["), f"stdout {out!r}, stderr {err!r}"
    (finding,) = [finding for finding in json.loads(out) if finding["what"] == "cluster"]
    assert (code, finding["level"]) == (1, "FAILED")
    assert str(file) in finding["found"]
    assert said in finding["found"]
    assert finding["remedy"]


def test_without_java_it_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", os.devnull)
    finding = machine.java()
    assert finding.level == "FAILED"
    assert "install a JDK 17" in finding.remedy


@pytest.mark.parametrize(("days", "level"), [(-1, "FAILED"), (29, "warning"), (31, "ok")])
def test_a_certificate_is_warned_of_30_days_before_its_end(days, level):
    now = datetime.now(timezone.utc)
    certificate = Certificate("CN=b", "CN=ca", now, now + timedelta(days=days, hours=1), ("b.test",), (), False, False)
    finding = of_certificate("broker 1 TLS", "10.0.0.1:9093: ", certificate)
    assert (finding.level, bool(finding.remedy)) == (level, level != "ok")
    assert "'CN=b', issued by 'CN=ca'" in finding.found


@contextlib.contextmanager
def other_service(does):
    """The port of a server that does this with each connection, and then closes it."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    threading.Thread(target=talk, args=(peer,), daemon=True).start()

        def talk(peer):
            with peer, contextlib.suppress(OSError):
                does(peer)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)  # ends the accept


def silent(peer):
    while peer.recv(1 << 16):  # until the client goes
        pass


def says_ssh(peer):
    peer.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    silent(peer)


@pytest.mark.parametrize(
    ("does", "protocol"),
    [(lambda peer: None, "PLAINTEXT"), (lambda peer: None, "SASL_PLAINTEXT"), (silent, "SASL_PLAINTEXT")],
)
def test_a_port_that_may_be_one_with_tls_fails_with_the_option_that_takes_it(does, protocol, capsys, monkeypatch):
    monkeypatch.setattr("kafkasource.tools.cli.doctor.machine_findings", lambda job: [])
    monkeypatch.setattr("kafkasource.tools.cli.doctor.addresses.ANSWER_MS", 100)
    given = ["default.api.timeout.ms=1000", f"security.protocol={protocol}"]
    if "SASL" in protocol:
        given += ["sasl.mechanism=PLAIN", "sasl.username=a", "sasl.password=b"]
    with other_service(does) as port:
        main(["doctor", "--json", "-b", f"127.0.0.1:{port}", *(word for option in given for word in ("-X", option))])
    failed = json.loads(capsys.readouterr().out)[-1]
    assert f"kafka.security.protocol={protocol.replace('PLAINTEXT', 'SSL')}" in failed["found"]


@pytest.mark.parametrize("does", [silent, says_ssh, lambda peer: None], ids=["silent", "ssh", "closes"])
def test_a_port_that_is_not_kafkas_fails_behind_tcp_and_no_broker_need_be_started(does, capsys, monkeypatch):
    monkeypatch.setattr("kafkasource.tools.cli.doctor.machine_findings", lambda job: [])
    with other_service(does) as port:
        code = main(["doctor", "--json", "-b", f"127.0.0.1:{port}", "-X", "default.api.timeout.ms=1000"])
    findings = [
        finding
        for finding in json.loads(capsys.readouterr().out)
        if finding["what"].startswith(("bootstrap", "cluster"))
    ]
    assert [(finding["level"], finding["what"]) for finding in findings] == [
        ("ok", "bootstrap TCP"),
        ("FAILED", "bootstrap ApiVersions"),
    ]
    assert code == 1
    assert f"127.0.0.1:{port}" in findings[1]["found"]
    assert "one of Kafka's" in findings[1]["remedy"]


def test_an_address_that_nobody_answers_is_no_failure_where_the_host_has_another():
    refused = AddressCheck("[::1]:9092", "TCP", ConnectFailed("Connection refused"))
    assert [[finding.level for finding in of_address("broker 1", refused, alone)] for alone in (True, False)] == [
        ["FAILED"],
        ["warning"],
    ]
