"""A real schema registry on this machine (Apicurio, with Confluent's API), one at a time, that outlives the command."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial

from kafkasource.tools.cli.arguments import add_json, port
from kafkasource.tools.cli.progress import say_starting

HELP = "a real schema registry on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    start = commands.add_parser("start", help="start one, wait until it is ready, print its URL")
    start.add_argument("--port", type=port, help="default: 8081 if free, else any free port")
    start.add_argument(
        "--keep-in",
        metavar="HOST:PORT,...",
        help="bootstrap servers of a Kafka without security, whose topic registry-journal keeps the schemas; without "
        "it, `stop` forgets them",
    )
    add_json(start)
    start.set_defaults(run=_start)
    stop = commands.add_parser("stop", help="stop it")
    add_json(stop)
    stop.set_defaults(run=_stop)
    status = commands.add_parser("status", help="whether it runs, and where; exit code 1 when it does not")
    add_json(status)
    status.set_defaults(run=_status)


def _start(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker.registry import detached as detached_registry

    state, ran_already = detached_registry.start(arguments.port, arguments.keep_in, partial(say_starting, "a registry"))
    if ran_already:
        print("pykafka: a registry is already running (pykafka registry stop ends it)", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"running": True, **asdict(state)}))
    else:
        print(state.url)  # alone on stdout: URL=$(pykafka registry start)
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker.registry import detached as detached_registry

    state = detached_registry.stop()
    if arguments.json:
        print(json.dumps({"stopped": state is not None, **(asdict(state) if state else {})}))
    elif state is None:
        print("no registry is running")
    elif state.bootstrap_servers is not None:
        print(f"stopped; its schemas stay in the Kafka at {state.bootstrap_servers}")
    else:
        print("stopped, its schemas forgotten")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker.registry import detached as detached_registry

    state = detached_registry.status()
    running = state is not None and state.running
    if arguments.json:
        print(json.dumps({"running": running, **(asdict(state) if state else {})}))
    elif state is None:
        print("no registry is running: start one with `pykafka registry start`")
    elif running:
        print(f"Apicurio {state.version} is running at {state.url}")
    else:
        print(
            f"Apicurio {state.version} was started at {state.url} and has ended: start one with `pykafka registry "
            "start`"
        )
    return 0 if running else 1
