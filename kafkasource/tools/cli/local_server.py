"""`start`, `stop` and `status` of a server on this machine, one at a time, that outlives the command."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kafkasource.tools.cli.arguments import add_json

_DETACHED = {
    "broker": "kafkasource.testing.broker.detached",
    "registry": "kafkasource.testing.broker.registry.detached",
}


def add_start_stop_status(
    parser: argparse.ArgumentParser, name: str, prints: str, start: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add the three commands of the server. Returns the parser of `start`, which prints what `prints` says."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    starting = commands.add_parser("start", help=f"start one, wait until it is ready, print {prints}")
    stop = commands.add_parser("stop", help="stop it, and say what becomes of its data")
    status = commands.add_parser("status", help="whether it runs, and where; exit code 1 when it does not")
    for command, run in ((starting, start), (stop, _stop), (status, _status)):
        add_json(command)
        command.set_defaults(run=run, server=name)
    return starting


def show_started(arguments: argparse.Namespace, state: Any, ran_already: bool) -> None:
    if ran_already:
        print(f"pykafka: {state.title} is already running (pykafka {arguments.server} stop ends it)", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"running": True, **asdict(state)}))
    else:
        print(state.address)  # alone on stdout: BOOTSTRAP=$(pykafka broker start)


def _stop(arguments: argparse.Namespace) -> int:
    state = importlib.import_module(_DETACHED[arguments.server]).stop()
    if arguments.json:
        print(json.dumps({"stopped": state is not None, **(asdict(state) if state else {})}))
    else:
        print(f"no {arguments.server} is running" if state is None else f"stopped; {state.data}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    state = importlib.import_module(_DETACHED[arguments.server]).status()
    running = state is not None and state.running
    start = f"start one with `pykafka {arguments.server} start`"
    if arguments.json:
        print(json.dumps({"running": running, **(asdict(state) if state else {})}))
    elif state is None:
        print(f"no {arguments.server} is running: {start}")
    elif running:
        print(f"{state.title} is running at {state.address}, its files in {state.folder}")
    else:
        print(f"{state.title} was started at {state.address} and has ended: {start}")
    return 0 if running else 1
