"""`pykafka`, also `python -m kafkasource`: a Kafka to develop against, and the demo.

Every error we expect is one line with its remedy (a broker that fails to start adds what it printed) and exit code 1;
Ctrl-C ends with 130, as a shell expects; wrong arguments with 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from kafkasource import __version__
from kafkasource.errors import KafkaSourceError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except KafkaSourceError as error:
        print(f"pykafka: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pykafka: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `pykafka broker status | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pykafka", description="Kafka for PySpark without jars.")
    parser.add_argument("--version", action="version", version=f"pykafka {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="JSON events through a real Kafka and Spark, with a live table")
    demo.set_defaults(run=_demo)
    broker = commands.add_parser("broker", help="a real Apache Kafka on this machine")
    _add_broker(broker.add_subparsers(required=True, metavar="COMMAND"))
    return parser


def _add_broker(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    start = commands.add_parser("start", help="start one, wait until it is ready, print its bootstrap servers")
    start.add_argument("--kafka-version", metavar="V", help="a release from Maven Central (default 4.3.1)")
    start.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    start.add_argument("--port", type=int, help="of the first node, the others take the next; default: free ones")
    start.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", type=_property, dest="properties"
    )
    start.add_argument("--data", metavar="DIR", help="keep the data here; without it, stop removes the data")
    start.set_defaults(run=_broker_start)
    stop = commands.add_parser("stop", help="stop it and remove its data (unless started with --data)")
    stop.set_defaults(run=_broker_stop)
    status = commands.add_parser("status", help="whether it runs, and where; exit code 1 when it does not")
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(run=_broker_status)


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _demo(arguments: argparse.Namespace) -> int:
    from kafkasource.demo import main as demo

    return demo()


def _broker_start(arguments: argparse.Namespace) -> int:
    from kafkasource.broker import DEFAULT_VERSION, detached

    ports = [arguments.port + n for n in range(arguments.nodes)] if arguments.port is not None else None
    version = arguments.kafka_version or DEFAULT_VERSION
    state, ran_already = detached.start(version, arguments.nodes, ports, dict(arguments.properties), arguments.data)
    if ran_already:
        print(f"pykafka: Kafka {state.version} is already running (pykafka broker stop ends it)", file=sys.stderr)
    print(state.bootstrap_servers)  # alone on stdout: BOOTSTRAP=$(pykafka broker start)
    return 0


def _broker_stop(arguments: argparse.Namespace) -> int:
    from kafkasource.broker import detached

    state = detached.stop()
    if state is None:
        print("no broker was started")
    elif state.keeps_data:
        print(f"stopped; its data stays in {state.folder}")
    else:
        print("stopped, its data removed")
    return 0


def _broker_status(arguments: argparse.Namespace) -> int:
    from kafkasource.broker import detached

    state = detached.status()
    running = state is not None and state.running
    if arguments.json:
        print(json.dumps({"running": running, **(asdict(state) if state else {})}))
    elif state is None:
        print("no broker is running: start one with `pykafka broker start`")
    elif running:
        print(f"Kafka {state.version} is running at {state.bootstrap_servers}, its data in {state.folder}")
    else:
        print(f"Kafka {state.version} was started at {state.bootstrap_servers} and has ended: `pykafka broker start`")
    return 0 if running else 1
