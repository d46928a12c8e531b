"""Arguments of the commands that serve a page: where they listen, and whom they answer."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.web.serving import Listening, Serving


def add_serving(parser: argparse.ArgumentParser, environment: str) -> None:
    """`environment`: what the variables of this server begin with."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1; 0.0.0.0: all)")
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a host name that requests may use for this server, besides localhost and its addresses; may be repeated",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"a file with the token that requests must send (Authorization: Bearer); else {environment}_TOKEN",
    )
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help=f"a PEM file with the server's certificate: serves over TLS; else {environment}_CERTIFICATE",
    )
    parser.add_argument(
        "--key",
        metavar="FILE",
        help=f"its private key, where it is in another file (PEM, no password); else {environment}_KEY",
    )


def listening(arguments: argparse.Namespace) -> Listening:
    """Raises KafkaSourceError where the file of --token-file cannot be read."""
    token = None
    if arguments.token_file:
        try:
            token = Path(arguments.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KafkaSourceError(f"--token-file {arguments.token_file}: {error}") from None
    return Listening(
        arguments.host, arguments.port or 0, arguments.allow_host, token, arguments.certificate, arguments.key
    )


def serve(make: Callable[[Listening], Serving], at: Listening, announce: Callable[[str], None]) -> int:
    """Serve until Ctrl-C. `announce` prints the address. Raises KafkaSourceError where the port is taken."""
    try:
        server = make(at)
    except OSError as error:
        raise KafkaSourceError(f"cannot listen at {at.host}, port {at.port}: {error}") from None
    with contextlib.closing(server), contextlib.suppress(KeyboardInterrupt):
        announce(server.url)
        threading.Event().wait()
    return 0
