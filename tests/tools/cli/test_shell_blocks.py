"""The shell commands of README and docs/ run as they are written; `NOT_RUN` says which commands cannot, and why.

The commands of a document run one after the other, in a folder of its own and against a real broker. Addresses,
/checkpoints, and the names in `NAMES` are replaced, as the broker may be shared. Each `pykafka` on any line, run or
not, must be one that its parser takes.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkasource.tools.cli import parser_of_all

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = re.compile(r"\b(localhost|east|east-1|west-1):9092\b")
NAMES = re.compile(r"\b(events|orders|numbers|copy|billing|audit)\b")
GIVEN = ("events", "orders")  # topics that a document has unless it makes them
RECORDS = "".join(f'{{"key":"ada","value":"{number}","partition":{number % 3}}}\n' for number in range(12))

_UNTIL_CTRL_C = "runs until Ctrl-C"
_STARTS_A_BROKER = "the test's own broker stands for it; tests/testing/broker/ starts such ones"
_A_REGISTRY = (
    "tests/testing/broker/test_registry.py starts one, tests/tools/cli/test_schemas_command.py asks one in memory"
)
_A_SCHEMA = "needs a registry: tests/tools/cli/test_typed_read.py reads so"
_A_MIRROR = "needs two clusters and a mirror: tests/mirror/ runs one"
_SPARK = "a job of the reader's own; tests/spark/ submits such ones"
_BUNDLES = "needs a cluster; tests/spark/test_standalone_cluster.py runs it"
_INSTALLS = "installs packages; `make dist` and tests/test_packaging.py do"
NOT_RUN = {
    "pykafka bundle environment jobs.tar.gz": _BUNDLES,
    "PYSPARK_PYTHON=/opt/jobs/bin/python spark-submit --master spark://master:7077 job.py": _BUNDLES,
    "pykafka doctor --fix": "changes pyspark's own file; tests/tools/cli/ does so with a copy",
    "make demo": "installs packages; tests/test_demo.py runs the demo",
    'pip install "/path/to/kafkasource[spark]"': _INSTALLS,
    "make dist && pip install dist/kafkasource-*-abi3-*.whl": _INSTALLS,
    "python3 -m venv .venv && . .venv/bin/activate": _INSTALLS,
    'pip install "/path/to/kafkasource[spark,cli]"': _INSTALLS,
    "python job.py": "the Python block above it, which tests/spark/test_documents.py runs",
    "spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 billing.py": _SPARK,
    "spark-submit billing.py": _SPARK,
    "spark-submit --master ... examples/mirror.py mirror.toml": "tests/mirror/test_mirror_command.py submits it",
    "pykafka lag --checkpoint /checkpoints/billing --watch": _UNTIL_CTRL_C,
    "pykafka lag --group billing --watch": _UNTIL_CTRL_C,
    "pykafka ui": _UNTIL_CTRL_C,
    "pykafka ui -b localhost:9092": _UNTIL_CTRL_C,
    "pykafka read events --follow | grep error": _UNTIL_CTRL_C,
    "pykafka read events --group audit --follow": _UNTIL_CTRL_C,
    "pykafka broker start": _STARTS_A_BROKER,
    "pykafka broker start --security sasl_ssl --mechanism SCRAM-SHA-512": _STARTS_A_BROKER,
    "pykafka broker stop": _STARTS_A_BROKER,
    "python examples/without_spark.py $(pykafka broker start) events": _STARTS_A_BROKER,
    "pykafka registry start": _A_REGISTRY,
    "pykafka registry stop": _A_REGISTRY,
    "pykafka schemas register events-value event.avsc": _A_REGISTRY,
    "pykafka schemas check events-value event.avsc": _A_REGISTRY,
    "pykafka schemas list": _A_REGISTRY,
    "pykafka schemas show events-value --version 1": _A_REGISTRY,
    "pykafka read orders --value-format avro --schema-registry https://registry:8081 -X badRecords=column": _A_SCHEMA,
    "pykafka mirror mirror.toml": _A_MIRROR,
    "pykafka mirror mirror.toml --status": _A_MIRROR,
    "pykafka mirror mirror.toml --once": _A_MIRROR,
    "pykafka lag --mirror mirror.toml": _A_MIRROR,
    "pykafka offsets translate --source east --group billing --source-servers east:9092 --yes": _A_MIRROR,
    "pykafka offsets translate -b west-1:9092 --source east --offset orders:0:1500": _A_MIRROR,
    "pykafka offsets translate -b west-1:9092 --source east --group billing --source-servers east-1:9092 --yes": (
        _A_MIRROR
    ),
    "pykafka offsets translate -b west-1:9092 --source east --checkpoint /checkpoints/billing --json": _A_MIRROR,
}


def without_comment(line):
    """The line without its comment, which begins at a word, outside of quotes."""
    quoted = ""
    for place, character in enumerate(line):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        elif character == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place].rstrip()
    return line.rstrip()


def commands(document):
    """The lines of a document that a reader types, without prompts and comments."""
    for block in BLOCK.finditer((ROOT / document).read_text(encoding="utf-8")):
        for line in block[1].replace("\\\n", " ").splitlines():
            command = without_comment(line.removeprefix("$ "))
            if command:
                yield command


DOCUMENTS = {
    name: found
    for name in ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
    if (found := list(commands(name)))
}
EVERY = sorted({command for commands in DOCUMENTS.values() for command in commands})
RUN = {name: [command for command in commands if command not in NOT_RUN] for name, commands in DOCUMENTS.items()}


def calls(command):
    """The words behind each `pykafka` of a line."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = None
    for token in [*lexer, ";"]:
        if token and set(token) <= set("();<>|&$"):
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(token)
        elif token == "pykafka":
            words = []


@pytest.mark.parametrize("command", [command for command in EVERY if "pykafka " in command])
def test_the_parser_takes_each_command_of_the_documents(command):
    lines = list(calls(command))
    assert lines
    for words in lines:
        parser_of_all().parse_args(words)  # SystemExit with the error on stderr


def test_an_option_that_does_not_exist_is_found_in_the_midst_of_a_line():
    (_, second) = calls("seq 3 | pykafka read 'a b' --json | $(pykafka topics list --sizes) > /dev/null")
    with pytest.raises(SystemExit):
        parser_of_all().parse_args(second)


def test_what_is_not_run_is_in_the_documents():
    assert sorted(NOT_RUN.keys() - set(EVERY)) == []


def typed(command, folder, servers):
    environment = {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    environment |= {"PATH": path, "KAFKA_BOOTSTRAP_SERVERS": servers}
    words = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def write_checkpoint(folder, topic):
    """Write the checkpoint of a query that has read one record of the topic's partition 0, in the form of Spark 4.2."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1795300000000,"conf":{},"sourceMetadataInfo":{}}'
    (folder / "offsets/0").write_text(f'v1\n{metadata}\n{{"{topic}":{{"0":1,"1":0,"2":0}}}}')
    (folder / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=() if name == "README.md" else pytest.mark.extended)
        for name, commands in RUN.items()
        if commands
    ],
)
def test_the_commands_of_a_document_run_as_written(document, kafka_broker, tmp_path):
    servers, commands = kafka_broker.bootstrap_servers, RUN[document]
    own = f"{os.getpid()}-{re.sub('[^a-z]', '-', document.lower())}"

    def meant(text):
        text = ADDRESS.sub(servers, text.replace("/checkpoints", str(tmp_path)))
        return NAMES.sub(rf"\1-{own}", text)

    shutil.copy(ROOT / "examples/mirror.toml", tmp_path / "mirror.toml")
    events = meant("events")
    if any(re.search(r"\b(events|orders|billing)\b", command) for command in commands):
        for name in GIVEN:
            if not any(f"topics create {name}" in command for command in commands):
                (tmp_path / "records").write_text(RECORDS)
                create = f"pykafka write {meant(name)} --create partitions=3 --format json < records"
                typed(create, tmp_path, servers)
    if any("billing" in command for command in commands):
        write_checkpoint(Path(meant("/checkpoints/billing")), events)
        typed(f"pykafka read {events} -n 3 --group {meant('billing')}", tmp_path, servers)
    for command in commands:
        typed(meant(command), tmp_path, servers)
