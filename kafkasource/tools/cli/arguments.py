"""Arguments that several commands share, and the connection to the cluster that they name.

`-X name=value` takes the options of the table, with or without `kafka.`: `-X request.timeout.ms=5000`. An unknown
name is an error here; in a Spark job it is a warning, because it may belong to another program.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from kafkasource import options
from kafkasource.errors import BootstrapFailed, OptionError
from kafkasource.options.spelling import nearest
from kafkasource.tools.cli.command_config import SERVERS, add_command_config, file_options, meant_for, registry_options

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.options import Options, Role

_FIRST_ANSWER_MS = 5_000  # how long a person waits for a cluster that cannot be reached
_ONE_CALL_MS = 30_000
_LAST_PORT = 65_535
_SERVERS = options.BY_NAME["kafka.bootstrap.servers"]


def name_and_value(text: str) -> tuple[str, str]:
    """An argparse type: `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def at_least(least: int) -> Callable[[str], int]:
    """An argparse type: a whole number, not below `least`."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    return number


def port(text: str) -> int:
    """An argparse type: the number of a TCP port; 0: any that is free."""
    number = at_least(0)(text)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port: the highest is {_LAST_PORT}")
    return number


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON on stdout, for scripts")


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a cluster and its client options."""
    parser.add_argument(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help=f"default: {SERVERS}, else the broker that `pykafka broker start` left running",
    )
    parser.add_argument(
        "-X",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=name_and_value,
        dest="settings",
        help="a client option of docs/options.md, such as request.timeout.ms=5000; may be repeated. All users of this "
        "machine see a command line: passwords belong into the file of -F",
    )
    add_command_config(parser)


def add_group_or_checkpoint(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the arguments that name a group or a query; the user gives one of them."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-g", "--group", metavar="GROUP", help="a consumer group")
    source.add_argument("-c", "--checkpoint", metavar="LOCATION", help="the checkpointLocation of a streaming query")
    return source


def bootstrap_servers(arguments: argparse.Namespace) -> str:
    """Raises OptionError where no cluster is named and none runs here."""
    named: str | None = arguments.bootstrap_servers or file_options(arguments).get("kafka.bootstrap.servers")
    named = named or os.environ.get(SERVERS)
    if named:
        return named
    from kafkasource.testing.broker import detached

    state = detached.status()
    if state is not None and state.running:
        return state.bootstrap_servers
    raise OptionError(f"which cluster? Give --bootstrap-servers, or set {SERVERS}, or run `pykafka broker start`")


def _well_formed(servers: str) -> str:
    """Raises OptionError, which names the variable of the environment where the servers come from there."""
    try:
        _SERVERS.parse(servers)
    except OptionError as error:
        if servers == os.environ.get(SERVERS):
            raise OptionError(str(error).replace(f"option {_SERVERS.name!r}", SERVERS, 1)) from None
        raise
    return servers


def parsed_options(arguments: argparse.Namespace, role: Role, more: Mapping[str, str] | None = None) -> Options:
    """The options that the command line gives, as a Spark job would. Raises OptionError."""
    written = {_canonical(name): value for name, value in arguments.settings}
    for name in written.keys() & (more or {}).keys():
        raise OptionError(f"-X {name}: the command sets this option itself; use its own arguments (`--help`)")
    for name in written.keys() & options.BY_NAME.keys():
        if role not in options.BY_NAME[name].used_by:
            raise OptionError(
                f"-X {name}: this option is for {'writing' if role == 'source' else 'reading'}; leave it out"
            )
    written = {**meant_for(role, file_options(arguments)), **written}
    if arguments.bootstrap_servers or "kafka.bootstrap.servers" not in written:
        written["kafka.bootstrap.servers"] = _well_formed(bootstrap_servers(arguments))
    if {"valueFormat", "keyFormat"} & (more or {}).keys():
        for name, text in registry_options(arguments).items():
            written.setdefault(f"schemaRegistry.{name}", text)
    written.setdefault("kafka.client.id", "pykafka")
    written.setdefault("kafka.default.api.timeout.ms", str(_ONE_CALL_MS))
    return options.parse({**written, **(more or {})}, role)


def _canonical(name: str) -> str:
    known = {key.lower(): option.name for option in options.OPTIONS for key in (option.name, *option.aliases)}
    for candidate in (name.lower(), f"kafka.{name.lower()}"):
        if candidate in known:
            return known[candidate]
        if options.refused(candidate) is not None:
            return candidate  # the error that `options.parse` raises says why
    short = {key.removeprefix("kafka."): canonical for key, canonical in known.items()}
    near = nearest(name.lower().removeprefix("kafka."), short)
    hint = "docs/options.md lists them" if near is None else f"did you mean {short[near].removeprefix('kafka.')}?"
    raise OptionError(f"-X {name}: unknown option; {hint}")


def settings_of_role(arguments: argparse.Namespace, role: Role) -> argparse.Namespace:
    """A copy without the -X options of the other role, for a command that reads and writes."""
    file_options(arguments)  # read once, before the copy
    meant = copy.copy(arguments)
    names = {name: _canonical(name) for name, _ in arguments.settings}
    meant.settings = [
        (name, value)
        for name, value in arguments.settings
        if names[name] not in options.BY_NAME or role in options.BY_NAME[names[name]].used_by
    ]
    return meant


def client_config(arguments: argparse.Namespace) -> ClientConfig:
    """The client of a command that neither reads nor writes records."""
    from kafkasource.kafka.config import ClientConfig

    meant = {"kafka." + field.name.replace("_", ".") for field in fields(ClientConfig)} | set(options.SECURITY_NAMES)
    for name, _ in arguments.settings:
        if _canonical(name) in options.BY_NAME.keys() - meant:
            raise OptionError(
                f"-X {name}: this command reads and writes no records, so the option has no effect here; leave it out"
            )
    return ClientConfig.from_options(parsed_options(arguments, "source"))


def reach(config: ClientConfig) -> None:
    """Raise BootstrapFailed soon if no broker answers, so that longer deadlines count only for brokers that do."""
    from kafkasource.kafka.cluster.cluster import Cluster

    soon = min(config.default_api_timeout_ms, _FIRST_ANSWER_MS)
    log = logging.getLogger("kafkasource.client")
    log.addFilter(_is_no_warning)  # the error says what each of them would, once
    try:
        with Cluster(replace(config, default_api_timeout_ms=soon)) as cluster:
            cluster.topics.describe([])
    except BootstrapFailed as error:
        if _of_environment(config):
            raise _ServersOfEnvironmentFailed(error.attempts, error.waited_ms) from None
        raise
    finally:
        log.removeFilter(_is_no_warning)


class _ServersOfEnvironmentFailed(BootstrapFailed):
    def __str__(self) -> str:
        return f"{super().__str__()}. {SERVERS} names these servers"


def _of_environment(config: ClientConfig) -> bool:
    try:
        return bool(config.bootstrap_servers == _SERVERS.parse(os.environ.get(SERVERS, "")))
    except OptionError:
        return False


def _is_no_warning(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING


@contextmanager
def reached_cluster(arguments: argparse.Namespace) -> Iterator[Cluster]:
    """The cluster, reached. Raises BootstrapFailed and whatever the calls inside raise."""
    from kafkasource.kafka.cluster.cluster import Cluster

    config = client_config(arguments)
    reach(config)
    with Cluster(config) as cluster:
        yield cluster
