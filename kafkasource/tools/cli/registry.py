"""A real schema registry on this machine (Apicurio, with Confluent's API), one at a time, that outlives the command."""

from __future__ import annotations

import argparse
from functools import partial

from kafkasource.tools.cli.arguments import port
from kafkasource.tools.cli.local_server import add_start_stop_status, show_started
from kafkasource.tools.cli.progress import say_starting

HELP = "a real schema registry on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    start = add_start_stop_status(parser, "registry", "its URL", _start)
    start.add_argument("--port", type=port, help="default: 8081 if free, else any free port")
    start.add_argument(
        "--keep-in",
        metavar="HOST:PORT,...",
        help="bootstrap servers of a Kafka without security, whose topic registry-journal keeps the schemas; without "
        "it, `stop` forgets them",
    )


def _start(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker.registry import detached

    show_started(arguments, *detached.start(arguments.port, arguments.keep_in, partial(say_starting, "a registry")))
    return 0
