"""From a definition to everything that it refers to, near or far: depth first, capped, a cycle is an error."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkasource.errors import ReferencesBroken, SchemaNotFound
from kafkasource.formats.registry.definitions import Definition, Reference
from kafkasource.formats.schema_source import RegisteredSchema
from kafkasource.kafka.security.quoting import printable

log = logging.getLogger("kafkasource.client")

MOST_REFERENCES = 1000
MOST_DEPTH = 64
MOST_CHARACTERS = 32 << 20  # of all texts together


def resolved(definition: Definition, what: str, fetch: Callable[[Reference], Definition]) -> RegisteredSchema:
    """Fetch all references. `what` names the definition in errors; `fetch` asks for one reference, and may raise.

    Raises ReferencesBroken."""
    return _Resolver(what, fetch).of(definition)


class _Resolver:
    def __init__(self, what: str, fetch: Callable[[Reference], Definition]) -> None:
        self._what = what
        self._fetch = fetch
        self._open: list[tuple[str, int]] = []  # the way to the definition whose references are read
        self._done: dict[tuple[str, int], Definition] = {}
        self._texts: dict[str, str] = {}  # by name, each behind those that it uses
        self._characters = 0

    def of(self, definition: Definition) -> RegisteredSchema:
        self._characters = len(definition.text)
        self._follow(definition)
        return RegisteredSchema(definition.kind, definition.text, tuple(self._texts.items()))

    def _follow(self, definition: Definition) -> None:
        for reference in definition.references:
            key = reference.subject, reference.version
            if key in self._open:
                raise self._error(f"{reference} refers to itself")
            found = self._done.get(key)
            if found is None:
                found = self._fetched(reference)
                self._open.append(key)
                self._follow(found)
                self._open.pop()
                self._done[key] = found
            self._take(reference, found.text)

    def _take(self, reference: Reference, text: str) -> None:
        """Take a text. If two versions of one name are referenced, the first wins, as in Confluent's clients."""
        if self._texts.setdefault(reference.name, text) != text:
            log.warning(
                "%s refers to different schemas named %s: the first of them is taken, not %s",
                self._what,
                printable(reference.name),
                reference,
            )

    def _fetched(self, reference: Reference) -> Definition:
        if len(self._done) + len(self._open) >= MOST_REFERENCES or len(self._open) >= MOST_DEPTH:
            raise self._error(f"it refers to more than {MOST_REFERENCES} schemas, or more than {MOST_DEPTH} deep")
        try:
            found = self._fetch(reference)
        except SchemaNotFound as error:  # the id is known, so the record is not at fault
            raise self._error(f"it refers to {reference}, which the registry does not have ({error})") from None
        self._characters += len(found.text)
        if self._characters > MOST_CHARACTERS:
            raise self._error(f"with its references it has more than {MOST_CHARACTERS} characters")
        return found

    def _error(self, why: str) -> ReferencesBroken:
        return ReferencesBroken(
            f"the references of {self._what} cannot be followed: {why}. Correct them in the registry"
        )
