"""`--command-config FILE`: a client.properties, as Kafka's own tools take it: options by Java's names, no `kafka.`.

Passwords belong there, or into references (`${env:NAME}`), and not on a command line, which every user of the machine
can see.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from kafkasource import options, properties
from kafkasource.errors import OptionError
from kafkasource.options import Role

ENVIRONMENT = "KAFKA_COMMAND_CONFIG"
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"  # another variable of the environment


def add_command_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-F",
        "--command-config",
        metavar="FILE",
        help="a client.properties, as Kafka's own tools take it: security.protocol=SASL_SSL and so on. -X goes before "
        f"it. Default: {ENVIRONMENT}, or the file of the broker that `pykafka broker start --security` left running",
    )


def file_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of the file by their canonical names; nothing where there is no file. Raises OptionError.

    A command reads the file once: what it found stays with its arguments. So the whole command has the same options,
    and the file may be a pipe, as `--command-config <(...)`.
    """
    if not hasattr(arguments, "file_options"):
        arguments.file_options = _read(arguments)
    found: dict[str, str] = arguments.file_options
    return found


def _place(arguments: argparse.Namespace) -> tuple[str | None, str]:
    """The file, and what names it, for errors."""
    if arguments.command_config:
        return arguments.command_config, f"--command-config {arguments.command_config}"
    of_environment = os.environ.get(ENVIRONMENT)
    if of_environment:
        return of_environment, f"{ENVIRONMENT}={of_environment}"
    found = _of_running_broker(arguments)
    return found, f"{found}, of the broker that runs here"


def _read(arguments: argparse.Namespace) -> dict[str, str]:
    place, named = _place(arguments)
    if not place:
        return {}
    try:
        found = properties.parse(Path(place).read_text(encoding="iso-8859-1"))  # as Java reads them
    except OSError as error:
        raise OptionError(f"{named}: cannot be read ({error.strerror})") from None
    except OptionError as error:
        raise OptionError(f"{named}: {error}") from None
    for name in found:
        if options.canonical(f"kafka.{name}") not in options.BY_NAME and options.refused(f"kafka.{name}") is None:
            raise OptionError(f"{named}: unknown option {name!r}; docs/options.md lists them")
    return {options.canonical(f"kafka.{name}"): value for name, value in found.items()}


def meant_for(role: Role, given: dict[str, str]) -> dict[str, str]:
    """Without those that only the other role has: one file serves readers and writers."""
    return {
        name: value
        for name, value in given.items()
        if name not in options.BY_NAME or role in options.BY_NAME[name].used_by
    }


def _of_running_broker(arguments: argparse.Namespace) -> str | None:
    """Of the broker that the command talks to where nothing else is named."""
    if arguments.bootstrap_servers or os.environ.get(SERVERS):
        return None
    from kafkasource.broker import detached

    state = detached.status()
    return state.client_properties if state is not None and state.running else None
