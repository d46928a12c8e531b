"""A real Apache Kafka on this machine, one at a time, that outlives the command."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.tools.cli.arguments import add_json, name_and_value, port
from kafkasource.tools.cli.progress import say_starting

if TYPE_CHECKING:
    from kafkasource.testing.broker.security.settings import Security

HELP = "a real Apache Kafka on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    start = commands.add_parser("start", help="start one, wait until it is ready, print its bootstrap servers")
    start.add_argument(
        "--kafka-version",
        metavar="V",
        help="0.8.2.2, 0.9.0.1, 0.10.2.2, 0.11.0.3, 3.9.2 or 4.3.1 (the default), or another release from 3.9 on; "
        "downloaded from Maven Central. docs/cli.md says which has which security",
    )
    start.add_argument("--nodes", type=int, choices=(1, 3), help="default: 1")
    start.add_argument(
        "--port",
        type=port,
        help="port of the first node, the other nodes take the next ones; default: 9092 if free, else any free ports",
    )
    start.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=name_and_value,
        dest="properties",
        help="a setting of server.properties; may be repeated",
    )
    start.add_argument(
        "--security",
        metavar="PROTOCOL",
        help="ssl, sasl_plaintext or sasl_ssl: makes certificates and a user, and a client.properties with them",
    )
    start.add_argument(
        "--mechanism",
        action="append",
        default=[],
        metavar="NAME",
        dest="mechanisms",
        help="of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; may be repeated (default PLAIN)",
    )
    start.add_argument(
        "--client-auth",
        choices=("none", "requested", "required"),
        default="none",
        help="whether a client needs a certificate; default: none",
    )
    start.add_argument(
        "--data", metavar="DIR", help="keep the data in this folder; without it, `stop` removes the data"
    )
    add_json(start)
    start.set_defaults(run=_start)
    stop = commands.add_parser("stop", help="stop it and remove its data (unless started with --data)")
    add_json(stop)
    stop.set_defaults(run=_stop)
    status = commands.add_parser("status", help="whether it runs, and where; exit code 1 when it does not")
    add_json(status)
    status.set_defaults(run=_status)


def _start(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker import DEFAULT_VERSION, detached

    ports = [arguments.port + n for n in range(arguments.nodes or 1)] if arguments.port is not None else None
    security = _security(arguments)
    properties = dict(arguments.properties)
    state, ran_already = detached.start(
        arguments.kafka_version,
        arguments.nodes,
        ports,
        properties,
        arguments.data,
        security,
        partial(say_starting, f"Kafka {arguments.kafka_version or DEFAULT_VERSION}"),
    )
    if ran_already:
        print(f"pykafka: Kafka {state.version} is already running (pykafka broker stop ends it)", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"running": True, **asdict(state)}))
    else:
        print(state.bootstrap_servers)  # alone on stdout: BOOTSTRAP=$(pykafka broker start)
        if state.client_properties is not None:
            print(f"pykafka: clients connect with {state.client_properties}", file=sys.stderr)
    return 0


def _security(arguments: argparse.Namespace) -> Security | None:
    """The security that --security, --mechanism and --client-auth ask for, with one user and a new random password."""
    from kafkasource.testing.broker.security.secured import CLIENT
    from kafkasource.testing.broker.security.settings import Security

    protocol: str | None = arguments.security
    if protocol is None:
        if arguments.mechanisms or arguments.client_auth != "none":
            raise OptionError("--mechanism and --client-auth go with --security ssl, sasl_plaintext or sasl_ssl")
        return None
    mechanisms = arguments.mechanisms or (["PLAIN"] if protocol.upper().startswith("SASL_") else [])
    users = {CLIENT: secrets.token_urlsafe(24)}
    return Security.of(protocol, mechanisms, users, client_auth=arguments.client_auth)


def _stop(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker import detached

    state = detached.stop()
    if arguments.json:
        print(json.dumps({"stopped": state is not None, **(asdict(state) if state else {})}))
    elif state is None:
        print("no broker is running")
    elif state.keeps_data:
        print(f"stopped; its data stays in {state.folder}")
    else:
        print("stopped, its data removed")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker import detached

    state = detached.status()
    running = state is not None and state.running
    if arguments.json:
        print(json.dumps({"running": running, **(asdict(state) if state else {})}))
    elif state is None:
        print("no broker is running: start one with `pykafka broker start`")
    elif running:
        print(f"Kafka {state.version} is running at {state.bootstrap_servers}, its data in {state.folder}")
    else:
        print(
            f"Kafka {state.version} was started at {state.bootstrap_servers} and has ended: start one with `pykafka "
            "broker start`"
        )
    return 0 if running else 1
