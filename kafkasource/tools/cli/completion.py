"""Print a script with which a shell completes `pykafka`: commands, options, their values, files, topics and groups.

  bash    pykafka completion bash > ~/.local/share/bash-completion/completions/pykafka
  zsh     pykafka completion zsh > "${fpath[1]}/_pykafka"
  fish    pykafka completion fish > ~/.config/fish/completions/pykafka.fish

Open a new shell then. For this shell alone: eval "$(pykafka completion bash)"

Names of topics and groups come from the cluster that the line names (-b, -F), else from KAFKA_BOOTSTRAP_SERVERS, else
from the broker that `pykafka broker start` left running. There are none if it does not answer within two seconds.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.cli import cluster_names
from kafkasource.tools.cli.completion_scripts import AFTER, BEFORE, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

HELP = "a script for bash, zsh or fish, which then completes pykafka's commands and options"

_FILES = {"FILE": "file", "DIR": "directory", "FOLDER": "directory", "LOCATION": "directory"}  # by metavar
_NAMES = {"TOPIC": "topics", "TOPIC[:PARTITION,...]": "topics", "GROUP": "groups"}  # likewise
_OTHER_NAMES = ("pykafka topics create", "pykafka offsets translate")  # a new topic; a group of another cluster


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    # The script calls this command with these arguments at TAB.
    parser.add_argument("--names", choices=cluster_names.KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--line", default="", help=argparse.SUPPRESS)
    parser.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace) -> int:
    if arguments.names:
        cluster_names.show(arguments.names, arguments.line)
        return 0
    try:
        import shtab
    except ImportError:
        raise KafkaSourceError("this needs shtab: pip install 'kafkasource[cli]'") from None
    from kafkasource.tools.cli import parser_of_all

    complete = {"file": shtab.FILE, "directory": shtab.DIRECTORY, **NAMES}
    parser = parser_of_all()
    for action, command in _actions(parser):
        kind = _FILES.get(str(action.metavar)) or _NAMES.get(str(action.metavar))
        if kind is not None and not (kind in NAMES and command in _OTHER_NAMES):
            action.complete = complete[kind]  # type: ignore[attr-defined]  # where shtab looks for it
        if arguments.shell == "zsh" and isinstance(action.metavar, str):
            action.metavar = action.metavar.replace(":", r"\:")  # shtab does not: zsh saw two arguments in HOST:PORT
    print(shtab.complete(parser, arguments.shell, preamble=BEFORE) + AFTER[arguments.shell])
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.Action, str]]:
    """Each with the words of its command; those of all commands below, too."""
    for action in parser._actions:
        yield action, parser.prog
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
