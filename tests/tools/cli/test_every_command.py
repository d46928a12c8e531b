"""Promises of every command. The parser has the list of commands."""

import argparse
import os
import subprocess
import sys

import pytest

from kafkasource.testing.broker import releases
from kafkasource.tools.cli import main, parser_of_all

WITHOUT_A_CLUSTER = {
    *("mirror", "metrics", "demo", "broker start", "broker stop", "broker status", "completion", "cache clean"),
    *("bundle zip", "bundle environment"),
    *("registry start", "registry stop", "registry status"),
    *("schemas list", "schemas show", "schemas check", "schemas register"),
}


def commands(parser=None, words=()):
    """(words, parser) of every command that can be run."""
    parser = parser or parser_of_all()
    choices = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not choices:
        yield " ".join(words), parser
    for action in choices:
        for word, inner in action.choices.items():
            yield from commands(inner, (*words, word))


COMMANDS = dict(commands())


def flags(parser):
    return {flag for action in parser._actions for flag in action.option_strings}


def test_there_is_a_command_for_each_of_these():
    assert {words.split()[0] for words in COMMANDS} == {
        *("topics", "read", "write", "groups", "lag", "metrics", "offsets", "transactions", "mirror", "broker", "demo"),
        *("doctor", "completion", "ui", "bundle", "registry", "schemas", "dlq", "cache"),
    }


@pytest.mark.parametrize("words", COMMANDS)
def test_help_is_told_for_each(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words.split(), "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pykafka {words}")


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - {"demo", "completion"}))
def test_each_answers_in_json_too(words):
    assert "--json" in flags(COMMANDS[words])


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - WITHOUT_A_CLUSTER))
def test_each_that_asks_a_cluster_takes_its_address_and_client_options(words):
    assert {"-b", "--bootstrap-servers", "-X"} <= flags(COMMANDS[words])


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_argument_is_explained(words):
    assert [action.dest for action in COMMANDS[words]._actions if not action.help and action.option_strings] == []


@pytest.mark.parametrize(
    "words",
    [
        ("lag", "-g", ""),
        ("lag", "-c", ""),
        ("groups", "describe", "g", ""),
        ("offsets", "set", "-g", "g", "--to-checkpoint", ""),
        ("read", ""),
        ("write", ""),
        ("topics", "create", ""),
        ("topics", "list", "-b", ""),
    ],
)
def test_an_empty_name_as_of_a_shell_variable_that_is_not_set_is_a_wrong_argument(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "the name is empty" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "follow"), [((), ("topics", "doctor")), (("groups",), ("list", "delete"))])
def test_half_a_command_is_told_what_may_follow(words, follow, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert [word for word in follow if f"\n    {word} " not in err] == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
@pytest.mark.parametrize(
    ("stdout", "code", "err"),
    [("> /dev/full", 1, "pykafka: cannot write the output: No space left on device\n"), (">&-", 0, "")],
)
def test_an_output_that_cannot_be_written_is_one_line_and_a_closed_one_none(stdout, code, err, tmp_path):
    command = f"{sys.executable} -m kafkasource broker stop {stdout}"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env={**os.environ, "KAFKASOURCE_CACHE": str(tmp_path)}
    )
    assert (done.returncode, done.stderr) == (code, err)


def test_a_folder_that_cannot_be_made_is_named_in_one_line(capfd, monkeypatch):
    def start(*_):
        os.mkdir("/nonexistent/data")

    monkeypatch.setattr("kafkasource.testing.broker.detached.start", start)
    assert main(["broker", "start", "--data", "/nonexistent/data"]) == 1
    assert capfd.readouterr().err == "pykafka: /nonexistent/data: No such file or directory\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("read events --bootsrap-server x", ("usage: pykafka read", "did you mean '--bootstrap-servers'?")),
        ("topics list --jsn", ("usage: pykafka topics list", "did you mean '--json'?")),
        ("topics list there", ("usage: pykafka topics list", "unrecognized arguments: there (`")),
        ("-b localhost:9092 topics list", ("-b stands before the command", "pykafka topics list -b HOST:PORT")),
    ],
)
def test_a_misplaced_or_misspelt_argument_gets_the_usage_of_its_command_and_the_name_that_was_meant(
    words, said, capsys
):
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    error = capsys.readouterr().err
    for part in said:
        assert part in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("topic list", "did you mean 'topics'?"),
        ("topics delte events", "did you mean 'delete'?"),
        ("read events --format jsn", "did you mean 'json'?"),
        ("consume events", "it is `pykafka read` here"),
        ("topics produce events", "it is `pykafka write` here"),
        ("read -t events -e", "(-t of kcat: give the topic without it) (-e of kcat: leave it out, as the command ends"),
        ("read events -J", "(-J of kcat: it is --json for `read`"),
        ("ui --port 99999", "99999 is not a port: the highest is 65535"),
        ("metrics . --port -1", "-1 is less than 0"),
    ],
)
def test_wrong_words_get_what_was_meant(words, said, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


# The least that each command with a broker needs beside the cluster.
LEAST = {
    "dlq list": "d", "dlq replay": "d", "dlq show": "d",
    "groups delete": "g", "groups describe": "g", "groups list": "",
    "lag": "-g g",
    "offsets delete": "-g g -t t", "offsets set": "-g g --to latest", "offsets show": "-g g",
    "offsets translate": "--source a --offset t:0:1",
    "read": "t",
    "topics alter": "t -p 2", "topics create": "t", "topics delete": "t", "topics describe": "t", "topics list": "",
    "transactions abort": "--prefix p", "transactions list": "--prefix p",
    "ui": "--port 0",
    "write": "t",
}  # fmt: skip


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ("", "127.0.0.1:1"),  # where nothing listens
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=wrong\n", "sasl.jaas.config"),
    ],
    ids=["address", "security"],
)
@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - WITHOUT_A_CLUSTER - {"doctor"}))  # test_cluster_arguments.py
def test_each_takes_the_address_and_the_security_of_a_command_config(
    words, security, said, tmp_path, capsys, monkeypatch
):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=127.0.0.1:1\ndefault.api.timeout.ms=20\n{security}")
    assert main([*words.split(), *LEAST[words].split(), "--command-config", str(file)]) == 1
    assert said in "".join(capsys.readouterr())


def test_the_help_names_the_releases_of_kafka_that_can_be_started():
    (version,) = [action for action in COMMANDS["broker start"]._actions if action.dest == "kafka_version"]
    assert f"from {'.'.join(map(str, releases.OLDEST))} on" in version.help
    assert f"(default: {releases.DEFAULT_VERSION})" in version.help


@pytest.mark.parametrize("words", ["mirror nowhere.toml", "doctor nowhere.py"])
def test_a_file_that_is_not_there_is_named_once(words, capsys):
    assert main(words.split()) == 1
    err = capsys.readouterr().err
    assert err.count("nowhere") == 1
    assert "No such file or directory" in err
