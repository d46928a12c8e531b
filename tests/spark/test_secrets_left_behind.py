"""Nothing that a job leaves behind holds a secret of its options: logs, pages, event logs, checkpoints, `ps`."""

from __future__ import annotations

import json
import tempfile
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from left_behind import files_with, run

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]

PLACES = ("text", "env", "file", "dir", "turned")  # where a user's password stands


@pytest.fixture
def passwords(secured_broker):
    """A user for each place, with a password of its own that exists nowhere else."""
    stem = uuid.uuid4().hex
    made = {f"{place}-{stem}": f"geheim-{place}-{uuid.uuid4().hex}" for place in PLACES}
    admin = AdminClient({"bootstrap.servers": secured_broker.secured.bootstrap_servers("PLAINTEXT")})
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = [UserScramCredentialUpsertion(user, kind, password.encode()) for user, password in made.items()]
    for done in admin.alter_user_scram_credentials(wanted).values():
        done.result(60)
    return {user.partition("-")[0]: (user, password) for user, password in made.items()}


@pytest.fixture
def folder():
    """A folder with a short path: executors make unix sockets in it, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="left-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Job:
    """The input of secrets_app.py, and the secrets in it. `as_text`: those that stand in options themselves."""

    def __init__(self, secured, passwords, folder: Path, connect: bool):
        self.folder = folder
        self.files = folder / "shipped"
        self.files.mkdir(parents=True)
        ca = self.files / "ca.pem"
        ca.write_bytes(secured.ca.read_bytes())
        self._write_passwords(passwords)
        wrong, mistyped, on_executors = (f"geheim-{word}-{uuid.uuid4().hex}" for word in ("wrong", "mistyped", "execs"))
        location = ca.name if not connect else str(ca)
        properties = "secrets.properties" if not connect else str(self.files / "secrets.properties")
        self._plain = {
            "kafka.bootstrap.servers": secured.bootstrap_servers("SASL_SSL"),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.ssl.truststore.location": location,
        }
        values = {
            "text": passwords["text"][1],
            "env": "${env:MARKED_PASSWORD}",
            "file": f"${{file:{properties}:password}}",
            "dir": f"${{dir:{self.files}/mounted:password}}",
            "turned": "${env:TURNED_PASSWORD}",
        }
        kafka = {place: self._options(passwords[place][0], value) for place, value in values.items()}
        kafka["wrong"] = self._options(passwords["text"][0], wrong)
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        name, password = passwords["text"]
        kafka["text"] = self._plain | {"kafka.sasl.jaas.config": f'{module} username="{name}" password="{password}";'}
        key, chain = _key_and_chain(secured.client_keystore("alice"))
        kafka["key"] = {
            "kafka.bootstrap.servers": secured.bootstrap_servers("MTLS"),
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": location,
            "kafka.ssl.key.pem": key,
            "kafka.ssl.certificate.pem": chain,
        }
        self.topics = {word: f"{word}-{uuid.uuid4().hex[:10]}" for word in ("text", "copy")}
        self.given = {"connect": connect, "kafka": kafka, "topics": self.topics, "mistyped": mistyped}
        self.environment = {"MARKED_PASSWORD": passwords["env"][1], "TURNED_PASSWORD": passwords["turned"][1]}
        self.settings = (
            {}
            if connect
            else {
                "spark.executorEnv.MARKED_PASSWORD": passwords["env"][1],
                "spark.executorEnv.TURNED_PASSWORD": on_executors,
            }
        )
        self.as_text = {"password": password, "key": key.split("\n")[2], "wrong": wrong, "mistyped": mistyped}
        self.by_reference = {place: passwords[place][1] for place in PLACES if place != "text"}
        self.by_reference["on executors"] = on_executors

    def run(self):
        shipped = [self.files / "ca.pem", self.files / "secrets.properties"]
        return run(self.folder, self.given, settings=self.settings, files=shipped, environment=self.environment)

    def found(self, secret):
        return files_with(self.folder / "left", secret)

    def _options(self, user, password):
        return self._plain | {"kafka.sasl.username": user, "kafka.sasl.password": password}

    def _write_passwords(self, passwords):
        (self.files / "secrets.properties").write_text(f"password={passwords['file'][1]}\n")
        (self.files / "mounted").mkdir()
        (self.files / "mounted" / "password").write_text(passwords["dir"][1])


def _assert_a_failed_stage_says_why(job, error):
    """The executors' password is another than the driver's: tasks fail. Each place that shows why names the option and
    the listener, and does not hold the password; nor does any other place."""
    left = job.folder / "left"
    (listener,) = {
        each["kafka.bootstrap.servers"] for each in job.given["kafka"].values() if "kafka.sasl.username" in each
    }
    logs = [path.read_text() for path in (left / "events").rglob("*") if path.is_file()]
    events = [json.loads(line) for log in logs for line in log.split("\n") if line]
    stages = [each["Stage Info"] for each in events if each["Event"] == "SparkListenerStageCompleted"]
    tasks = [each["Task End Reason"] for each in events if each["Event"] == "SparkListenerTaskEnd"]
    pages = [json.loads(path.read_text()) for path in (left / "ui").glob("*stages%3Fdetails*")]
    shown = {
        "error": [error],
        "event log, stages": [each["Failure Reason"] for each in stages if "Failure Reason" in each],
        "event log, tasks": [json.dumps(each) for each in tasks if each["Reason"] != "Success"],
        "UI, JSON": [each["failureReason"] for page in pages for each in page if each["status"] == "FAILED"],
        "stderr of the driver": [(left / "output").read_text()],
    }
    for place, texts in shown.items():
        refused = [each for each in texts if "refuses the credentials" in each]
        assert refused, place
        for text in refused:
            assert "'kafka.sasl.password'" in text, place
            assert listener in text, place
            assert job.by_reference["on executors"] not in text, place


def _key_and_chain(pem):
    key, _, chain = pem.read_text().partition("-----BEGIN CERTIFICATE")
    return key, "-----BEGIN CERTIFICATE" + chain


def test_a_job_leaves_no_secret_behind_and_a_reference_not_even_in_pickles(secured_broker, passwords, folder):
    job = Job(secured_broker.secured, passwords, folder, connect=False)
    outcomes = job.run()
    done = [name for name, outcome in outcomes.items() if outcome == "done"]
    assert done == ["write", "read", "stream", "clusters", "view"], outcomes
    assert "refuses the credentials" in outcomes["refused in planning"]
    assert "refuses the credentials" in outcomes["refused in tasks"]
    _assert_a_failed_stage_says_why(job, outcomes["refused in tasks"])
    # These are what is searched: names that are no secrets are found in them.
    told = "\n".join(each for name in (*job.topics.values(), "refuses the credentials") for each in job.found(name))
    for place in ("events/", "ui/", "checkpoint/", "output", "work/"):
        assert place in told, told
    for what, secret in job.by_reference.items():
        # It ships that file itself; Spark keeps a copy for the executors of a machine.
        left = [each for each in job.found(secret) if not each.endswith(("secrets.properties", "_cache"))]
        # py4j's log at DEBUG has all settings, spark.executorEnv among them.
        assert left == (["driver-python.log"] if secret in job.settings.values() else []), what
    for what, secret in job.as_text.items():
        # py4j's log at DEBUG has each call of the user's program, as docs/secrets.md says: the search finds it.
        driver, *others = job.found(secret)
        assert driver == "driver-python.log", what
        assert [each for each in others if not each.startswith(("local/", "work/", "tmp/"))] == [], what
        assert not any(each.endswith(("stdout", "stderr")) for each in others), what


def test_over_connect_the_settings_of_spark_conf_hide_every_secret(secured_broker, passwords, folder):
    job = Job(secured_broker.secured, passwords, folder, connect=True)
    outcomes = job.run()
    done = [name for name, outcome in outcomes.items() if outcome == "done"]
    assert done[:5] == ["write", "read", "stream", "clusters", "view"], outcomes
    assert "refuses the credentials" in outcomes["refused in planning"]
    named = "\n".join(job.found("kafka.ssl.truststore.location"))  # where options show
    for place in ("events/", "ui/", "connect"):
        assert place in named, named
    hidden = {what: secret for what, secret in job.as_text.items() if what != "mistyped"}  # who would know that name?
    for what, secret in (job.by_reference | hidden).items():
        assert [each for each in job.found(secret) if not each.startswith(("local/", "tmp/"))] == [], what
    assert "Spark Connect shows" not in (folder / "left" / "output").read_text()
