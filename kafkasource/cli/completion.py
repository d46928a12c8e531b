"""Print a script with which a shell completes `pykafka`: commands, options, their values, and files.

  bash    pykafka completion bash > ~/.local/share/bash-completion/completions/pykafka
  zsh     pykafka completion zsh > "${fpath[1]}/_pykafka"
  fish    pykafka completion fish > ~/.config/fish/completions/pykafka.fish

Open a new shell then. For this shell alone: eval "$(pykafka completion bash)"
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

HELP = "a script for bash, zsh or fish, which then completes pykafka's commands and options"

_FILES = {"FILE": "file", "DIR": "directory", "FOLDER": "directory", "LOCATION": "directory"}  # by metavar


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise KafkaSourceError("this needs shtab: pip install 'kafkasource[cli]'") from None
    from kafkasource.cli import parser_of_all

    complete = {"file": shtab.FILE, "directory": shtab.DIRECTORY}
    parser = parser_of_all()
    for action in _actions(parser):
        kind = _FILES.get(str(action.metavar))
        if kind is not None:
            action.complete = complete[kind]  # type: ignore[attr-defined]  # where shtab looks for it
    print(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of all commands below, too."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
