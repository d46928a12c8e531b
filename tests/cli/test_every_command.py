"""What holds for every command that there is, found by asking the parser for them."""

import argparse

import pytest

from kafkasource.cli import _parser, main

WITHOUT_A_CLUSTER = {"mirror", "metrics", "demo", "broker start", "broker stop", "broker status"}


def commands(parser=None, words=()):
    """(words, parser) of every command that can be run."""
    parser = parser or _parser()
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
        "doctor",
    }


@pytest.mark.parametrize("words", COMMANDS)
def test_help_is_told_for_each(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words.split(), "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pykafka {words}")


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - {"demo"}))
def test_each_answers_in_json_too(words):
    assert "--json" in flags(COMMANDS[words])


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - WITHOUT_A_CLUSTER))
def test_each_that_asks_a_cluster_takes_its_address_and_client_options(words):
    assert {"-b", "--bootstrap-servers", "-X"} <= flags(COMMANDS[words])


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_argument_is_explained(words):
    assert [action.dest for action in COMMANDS[words]._actions if not action.help and action.option_strings] == []
