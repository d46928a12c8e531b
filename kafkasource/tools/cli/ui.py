"""Serve a page about a cluster: topics and their records, groups and their lag, open transactions.

It only reads, unless --write is given, and joins no group. Open the address that the command prints: it has
the token, which every request for data must send.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.cli.arguments import add_cluster, add_json, parsed_options, port, reach, settings_of_role
from kafkasource.tools.cli.serving import add_serving, token_of

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
    from kafkasource.tools.ui.app import KIND, App

    given = token_of(arguments) if arguments.token is None else arguments.token
    given = KIND.variable("TOKEN") if given is None else given
    token = secrets.token_urlsafe(24) if given is None else given
    config = ClientConfig.from_options(_options(arguments, "source", {}))
    reach(config)
    with Cluster(config) as cluster:
        try:
            app = App(
                cluster,
                partial(_options, arguments, "source"),
                partial(_options, arguments, "sink") if arguments.write else None,
                host=arguments.host,
                port=arguments.port,
                token=token,
                allowed_hosts=arguments.allow_host,
                certificate=arguments.certificate,
                key=arguments.key,
            )
        except OSError as error:
            raise KafkaSourceError(f"cannot listen at {arguments.host}, port {arguments.port}: {error}") from None
        with contextlib.closing(app), contextlib.suppress(KeyboardInterrupt):
            _tell(app.site.url, None if given else token, arguments.json)
            threading.Event().wait()
    return 0


def _options(arguments: argparse.Namespace, role: Role, more: Mapping[str, str]) -> Options:
    """The options of a reader or a writer. If the page also writes, -X may have options of both."""
    return parsed_options(settings_of_role(arguments, role) if arguments.write else arguments, role, more)


def _tell(url: str, token: str | None, as_json: bool) -> None:
    """Print the address; a token of the user's is not repeated."""
    page = f"{url}/" if token is None else f"{url}/#token={token}"
    if as_json:
        print(json.dumps({"url": page}), flush=True)
    else:
        print(page, file=sys.stderr, flush=True)
