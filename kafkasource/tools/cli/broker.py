"""A real Apache Kafka on this machine, one at a time, that outlives the command."""

from __future__ import annotations

import argparse
import secrets
import sys
from functools import partial
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.tools.cli.arguments import name_and_value, port
from kafkasource.tools.cli.local_server import add_start_stop_status, show_started
from kafkasource.tools.cli.progress import say_starting

if TYPE_CHECKING:
    from kafkasource.testing.broker.security.settings import Security

HELP = "a real Apache Kafka on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    start = add_start_stop_status(parser, "broker", "its bootstrap servers", _start)
    start.add_argument(
        "--kafka-version",
        metavar="V",
        help="a release from 0.8.2 on, but 2.0 to 2.3 (default: 4.3.1); downloaded from Maven Central",
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


def _start(arguments: argparse.Namespace) -> int:
    from kafkasource.testing.broker import DEFAULT_VERSION, detached

    ports = [arguments.port + n for n in range(arguments.nodes or 1)] if arguments.port is not None else None
    state, ran_already = detached.start(
        arguments.kafka_version,
        arguments.nodes,
        ports,
        dict(arguments.properties),
        arguments.data,
        _security(arguments),
        partial(say_starting, f"Kafka {arguments.kafka_version or DEFAULT_VERSION}"),
    )
    show_started(arguments, state, ran_already)
    if state.client_properties is not None and not arguments.json:
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
