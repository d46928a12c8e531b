"""Arguments of the commands that serve a page: where they listen, and whom they answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from kafkasource.errors import KafkaSourceError


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


def token_of(arguments: argparse.Namespace) -> str | None:
    """The token of --token-file. Raises KafkaSourceError where the file cannot be read."""
    if not arguments.token_file:
        return None
    try:
        return Path(arguments.token_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaSourceError(f"--token-file {arguments.token_file}: {error}") from None
