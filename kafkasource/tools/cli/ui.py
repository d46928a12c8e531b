"""Serve a page about a cluster: topics and their records, groups and their lag, open transactions.

It only reads, unless --write is given, and joins no group. Open the address that the command prints: it has
the token, which every request for data must send.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkasource.tools.cli.arguments import add_cluster, add_json, parsed_options, port, reach, settings_of_role
from kafkasource.tools.cli.serving import add_serving, listening, serve

if TYPE_CHECKING:
    from kafkasource.options import Options, Role

EXAMPLES = """examples:
  pykafka ui                                    prints http://127.0.0.1:9405/#token=...
  pykafka ui -b kafka:9092 --port 0             at any free port
  pykafka ui --host 0.0.0.0 --token-file token --certificate server.pem --key server.key"""
HELP = "a page about a cluster: topics, records, groups, lag, open transactions"

_PORT = 9405


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-p", "--port", type=port, default=_PORT, metavar="PORT", help=f"default: {_PORT}; 0: any that is free"
    )
    add_serving(parser, "KAFKASOURCE_UI")
    parser.add_argument(
        "--token", metavar="TOKEN", help="the token itself; other users of this machine can see it: use --token-file"
    )
    parser.add_argument(
        "-w",
        "--write",
        action="store_true",
        help="let the page write records, set a group's offsets, create and delete topics; it asks before each",
    )
    add_cluster(parser)
    add_json(parser)
    parser.set_defaults(run=_ui)


def _ui(arguments: argparse.Namespace) -> int:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.tools.ui.app import UiServer

    at = listening(arguments)
    given = at.token if arguments.token is None else arguments.token
    given = UiServer.kind.variable("TOKEN") if given is None else given
    at = replace(at, token=secrets.token_urlsafe(24) if given is None else given)
    config = ClientConfig.from_options(_options(arguments, "source", {}))
    reach(config)

    def announce(url: str) -> None:
        """A token of the user's is not repeated."""
        page = f"{url}/" if given else f"{url}/#token={at.token}"
        if arguments.json:
            print(json.dumps({"url": page}), flush=True)
        else:
            print(page, file=sys.stderr, flush=True)

    with Cluster(config) as cluster:
        reads = partial(_options, arguments, "source")
        writes = partial(_options, arguments, "sink") if arguments.write else None
        return serve(lambda at: UiServer(at, cluster, reads, writes), at, announce)


def _options(arguments: argparse.Namespace, role: Role, more: Mapping[str, str]) -> Options:
    """The options of a reader or a writer. If the page also writes, -X may have options of both."""
    return parsed_options(settings_of_role(arguments, role) if arguments.write else arguments, role, more)
