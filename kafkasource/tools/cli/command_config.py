"""`--command-config FILE`: a client.properties, as Kafka's own tools take it: options by Java's names, no `kafka.`.

Passwords belong there, or into references (`${env:NAME}`), and not on a command line, which every user of the machine
can see.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.security import properties
from kafkasource.options import Role, registry
from kafkasource.options.spelling import nearest

log = logging.getLogger("kafkasource.cli")

ENVIRONMENT = "KAFKA_COMMAND_CONFIG"
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"  # another variable of the environment
_REGISTRY_PREFIXES = (registry.PREFIX.lower(), "schema.registry.")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf".decode("iso-8859-1")  # of UTF-8, as some editors for Windows write it


def add_command_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-F",
        "--command-config",
        metavar="FILE",
        help="a client.properties, as Kafka's own tools take it: security.protocol=SASL_SSL and so on. -X goes before "
        f"it. Default: {ENVIRONMENT}, or the file of the broker that `pykafka broker start --security` left running",
    )


def file_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of the file by their canonical names; empty without a file. Raises OptionError.

    A warning names unknown options, and the command goes on, as Kafka's tools do: several programs share such files.
    """
    properties_of_file(arguments)
    options_of_file: dict[str, str] = arguments.file_options
    return options_of_file


def registry_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of a schema registry that the file has, without a prefix: `schema.registry.url` as `url`.

    TLS for the registry needs a prefix: without one it is the brokers'.
    """
    properties_read = properties_of_file(arguments)
    return {name: text for key, text in properties_read.items() if (name := _of_registry(key)) is not None}


def bare(key: str) -> str:
    """A registry's option without the prefix, ours or that of Confluent's clients."""
    return next((key[len(prefix) :] for prefix in _REGISTRY_PREFIXES if key.lower().startswith(prefix)), key)


def _of_registry(key: str) -> str | None:
    name = bare(key)
    return name if name != key or (name in registry.BY_NAME and name.startswith(("basic.", "bearer."))) else None


def properties_of_file(arguments: argparse.Namespace) -> dict[str, str]:
    """All that the file has, as it is written there. Raises OptionError.

    A command reads the file once: what it found stays with its arguments. So the whole command has the same options,
    and the file may be a pipe, as `--command-config <(...)`.
    """
    if not hasattr(arguments, "properties_of_file"):
        place, named = _place(arguments)
        arguments.properties_of_file = read = {} if not place else _read(place, named)
        arguments.file_options = _options_of(read, named)
    found_before: dict[str, str] = arguments.properties_of_file
    return found_before


def _place(arguments: argparse.Namespace) -> tuple[str | None, str]:
    """The file, and the argument or variable that names it, for errors."""
    if arguments.command_config:
        return arguments.command_config, f"--command-config {arguments.command_config}"
    of_environment = os.environ.get(ENVIRONMENT)
    if of_environment:
        return of_environment, f"{ENVIRONMENT}={of_environment}"
    file = _of_running_broker(arguments)
    return file, f"{file}, of the broker that runs here"


def _read(place: str, named: str) -> dict[str, str]:
    try:
        text = Path(place).read_text(encoding="iso-8859-1")  # as Java reads them
        if text.startswith(_BYTE_ORDER_MARK):
            log.warning("%s: begins with a byte order mark: save it without one, Java's tools do not take it", named)
            text = text[len(_BYTE_ORDER_MARK) :]
        return properties.parse(text)
    except OSError as error:
        raise OptionError(f"{named}: cannot be read ({error.strerror})") from None
    except OptionError as error:
        raise OptionError(f"{named}: {error}") from None


def _options_of(given: dict[str, str], named: str) -> dict[str, str]:
    known, others = {}, []
    for key, text in given.items():
        name = options.canonical(f"kafka.{key}")
        if name in options.BY_NAME:
            known[name] = text
        elif _of_registry(key) is None:
            near = nearest(f"kafka.{key}", options.BY_NAME)
            others.append(key if near is None else f"{key} (did you mean {near.removeprefix('kafka.')}?)")
    if others:
        log.warning("%s: passed over, as they mean nothing to pykafka: %s", named, ", ".join(others))
    return known


def meant_for(role: Role, given: dict[str, str]) -> dict[str, str]:
    """The options of this role: one file serves readers and writers."""
    return {
        name: value
        for name, value in given.items()
        if name not in options.BY_NAME or role in options.BY_NAME[name].used_by
    }


def _of_running_broker(arguments: argparse.Namespace) -> str | None:
    """The file of the broker that `pykafka broker start` left running, if the command uses that broker."""
    if getattr(arguments, "bootstrap_servers", SERVERS) or os.environ.get(SERVERS):
        return None
    from kafkasource.testing.broker import detached

    state = detached.status()
    return state.client_properties if state is not None and state.running else None
