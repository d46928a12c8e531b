"""Schemas in a registry with Confluent's API: list and show them, check whether a new one fits, register it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.errors import OptionError, SchemaNotFound
from kafkasource.tools.cli.arguments import add_json, at_least, name_and_value
from kafkasource.tools.cli.registry_arguments import add_registry, registry_client
from kafkasource.tools.cli.terminal import print_document

if TYPE_CHECKING:
    from kafkasource.formats.registry import Definition

HELP = "schemas in a schema registry"
EXAMPLES = """examples:
  pykafka schemas list
  pykafka schemas show events-value
  pykafka schemas show --id 7
  pykafka schemas check events-value event.avsc && pykafka schemas register events-value event.avsc
"""

_KINDS = {".avsc": "AVRO", ".proto": "PROTOBUF"}  # a .json may be either of the other two
_MOST_BYTES = 16 << 20


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listed = commands.add_parser("list", help="the subjects, with version, id and kind of their latest schema")
    listed.set_defaults(run=_list)
    show = commands.add_parser("show", help="the text of a schema")
    show.add_argument("subject", nargs="?", metavar="SUBJECT", help="such as events-value; or give --id")
    show.add_argument("--version", type=at_least(1), metavar="N", help="default: the latest")
    show.add_argument("--id", type=at_least(0), dest="schema_id", metavar="ID", help="the id that records carry")
    show.set_defaults(run=_show)
    check = commands.add_parser(
        "check", help="whether a schema may follow the subject's latest; exit code 1 when it may not"
    )
    check.set_defaults(run=_check)
    register = commands.add_parser(
        "register", help="add a schema as the subject's latest version, unless the subject has it; prints the id"
    )
    register.add_argument("--normalize", action="store_true", help="let the registry normalize the text first")
    register.set_defaults(run=_register)
    for command in (check, register):
        command.add_argument("subject", metavar="SUBJECT")
        command.add_argument("file", metavar="FILE", help="the schema; - reads standard input")
        command.add_argument(
            "--kind", choices=("AVRO", "PROTOBUF", "JSON"), help="default: AVRO for .avsc, PROTOBUF for .proto"
        )
        command.add_argument(
            "--reference",
            action="append",
            default=[],
            type=name_and_value,
            dest="references",
            metavar="NAME=SUBJECT:VERSION",
            help="where a type is that the schema uses and does not define; may be repeated",
        )
    for command in (listed, show, check, register):
        add_registry(command)
        add_json(command)


def _list(arguments: argparse.Namespace) -> int:
    from kafkasource.tools.cli import tables

    client, rows = registry_client(arguments), []
    for subject in client.subjects():
        try:
            rows.append(client.version(subject))
        except SchemaNotFound:
            continue  # deleted meanwhile
    if arguments.json:
        for version in rows:
            fields = {"subject": version.subject, "version": version.version, "id": version.schema_id}
            print(json.dumps({**fields, "kind": version.definition.kind}))
        return 0
    tables.show(
        ("subject", "version", "id", "kind"),
        [(version.subject, version.version, version.schema_id, version.definition.kind) for version in rows],
    )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from kafkasource.formats.registry.definitions import LATEST

    if (arguments.subject is None) == (arguments.schema_id is None):
        raise OptionError("show what? Give a SUBJECT, or --id")
    if arguments.schema_id is not None and arguments.version is not None:
        raise OptionError("--version goes with a SUBJECT, not with --id")
    client = registry_client(arguments)
    if arguments.schema_id is not None:
        schema = client.schema(arguments.schema_id)
        text, fields = schema.text, {"id": arguments.schema_id, "kind": schema.kind, "schema": schema.text}
        fields["references"] = [{"name": name, "schema": schema} for name, schema in schema.references]
    else:
        version = client.version(arguments.subject, LATEST if arguments.version is None else arguments.version)
        text = version.definition.text
        fields = {"subject": version.subject, "version": version.version, "id": version.schema_id}
        fields |= {"kind": version.definition.kind, "schema": text}
        fields["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in version.definition.references
        ]
    print_document(json.dumps(fields) if arguments.json else text)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    client, definition = registry_client(arguments), _definition(arguments)
    try:
        answer = client.check(arguments.subject, definition)
        compatible, messages = answer.is_compatible, list(answer.messages)
    except SchemaNotFound:
        compatible, messages = True, [f"{arguments.subject} has no version yet"]
    if arguments.json:
        print(json.dumps({"compatible": compatible, "messages": messages}))
    else:
        print("compatible" if compatible else "not compatible")
        for message in messages:
            print(f"  {message}")
    return 0 if compatible else 1


def _register(arguments: argparse.Namespace) -> int:
    client, definition = registry_client(arguments), _definition(arguments)
    schema_id = client.register(arguments.subject, definition, arguments.normalize)
    print(json.dumps({"subject": arguments.subject, "id": schema_id}) if arguments.json else schema_id)
    return 0


def _definition(arguments: argparse.Namespace) -> Definition:
    from kafkasource.formats.registry import Definition, Reference

    kind = arguments.kind or _KINDS.get(Path(arguments.file).suffix)
    if kind is None:
        raise OptionError(f"which kind of schema is {arguments.file}? Give --kind AVRO, PROTOBUF or JSON")
    references = []
    for name, place in arguments.references:
        subject, _, version = place.rpartition(":")
        if not subject or not version.isdecimal():
            raise OptionError(f"--reference {name}={place}: expected NAME=SUBJECT:VERSION, such as n.R=r-value:1")
        references.append(Reference(name, subject, int(version)))
    return Definition(_text(arguments.file), kind, tuple(references))


def _text(place: str) -> str:
    if place == "-":
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        with Path(place).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OptionError(f"{place}: more than {_MOST_BYTES} bytes, too large for a schema")
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise OptionError(f"{place}: not UTF-8") from None
