"""The schema registry of a command: from arguments, the file of --command-config, or the environment."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError
from kafkasource.options.registry import BY_NAME, PREFIX
from kafkasource.tools.cli.arguments import name_and_value
from kafkasource.tools.cli.command_config import bare, registry_options

if TYPE_CHECKING:
    from kafkasource.formats.registry import RegistryClient
    from kafkasource.options import Options

ENVIRONMENT = "SCHEMA_REGISTRY_URL"
_DEFAULT = f"default: {ENVIRONMENT}, else the registry that `pykafka registry start` left running"
SCHEMA_REGISTRY_HELP = f"the registry of avro and protobuf ({_DEFAULT}); -X schemaRegistry... for logging in"
_RETRY = f"{PREFIX}retry.timeout.ms"
_FIRST_ANSWER_MS = "5000"  # how long a person waits for a registry that cannot be reached


def add_registry(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a registry and its client options."""
    parser.add_argument(
        "-r",
        "--registry",
        metavar="URL,...",
        help=_DEFAULT,
    )
    parser.add_argument(
        "-X",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=name_and_value,
        dest="settings",
        help="an option schemaRegistry.* (without this prefix, too), such as ssl.truststore.location=ca.pem; may be "
        "repeated. All users of this machine see a command line: passwords belong into the file of -F",
    )
    parser.add_argument(
        "-F",
        "--command-config",
        metavar="FILE",
        help="a properties file with schema.registry.url, basic.auth.user.info, schema.registry.ssl.* and so on; its "
        "options for brokers are ignored",
    )


def registry_client(arguments: argparse.Namespace) -> RegistryClient:
    """Raises OptionError where no registry is named and none runs here."""
    from kafkasource.formats.registry import RegistryClient, RegistryOptions

    given = {**registry_options(arguments), **{bare(name): value for name, value in arguments.settings}}
    if arguments.registry or "url" not in given:
        url = arguments.registry or _default_url()
        if url is None:
            raise OptionError(f"which registry? Give --registry, or set {ENVIRONMENT}, or run `pykafka registry start`")
        given["url"] = url
    given.setdefault("retry.timeout.ms", _FIRST_ANSWER_MS)
    return RegistryClient(RegistryOptions.of(given))


def reach_registry(options: Options, topic: str) -> None:
    """Raise RegistryUnavailable soon if the registry of a typed read gives no answer, so that its longer time counts
    only for a registry that does. Any answer will do, also that it has no such subject."""
    from kafkasource.errors import RegistryError, RegistryUnavailable
    from kafkasource.formats.registry import RegistryClient
    from kafkasource.formats.schema_options import RegistrySchemas, schemas_of

    if options["schemaRegistry.url"] is None:
        return
    given = options[_RETRY] or BY_NAME["retry.timeout.ms"].implied
    soon = schemas_of({**options, _RETRY: str(min(int(given), int(_FIRST_ANSWER_MS)))})
    assert isinstance(soon, RegistrySchemas)
    try:
        RegistryClient(soon.options).versions(f"{topic}-value")
    except RegistryUnavailable:
        raise
    except RegistryError:
        return


def typed_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options that a typed read or write is given by its own arguments. Where Avro or Protobuf is given no place of
    schemas, it is the registry that every command takes without --registry. Raises OptionError."""
    named = {
        "valueFormat": arguments.value_format,
        "keyFormat": arguments.key_format,
        "schemaRegistry.url": arguments.schema_registry,
    }
    given = {name: text for name, text in named.items() if text is not None}
    elsewhere = {name.lower() for name, _ in arguments.settings} & {"schemaregistry", "schemaregistry.url"}
    if {"avro", "protobuf"} & {*given.values()} and not elsewhere and "schemaRegistry.url" not in given:
        url = None if "url" in registry_options(arguments) else _default_url()
        if url is not None:
            given["schemaRegistry.url"] = url
    return given


def _default_url() -> str | None:
    named = os.environ.get(ENVIRONMENT)
    if named:
        return named
    from kafkasource.testing.broker.registry import detached as detached_registry

    state = detached_registry.status()
    return state.url if state is not None and state.running else None
