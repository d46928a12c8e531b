"""Calls a registry. Answers for ids are kept for ever; `latest`, lists and changes go to the registry each time."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from kafkasource.errors import (
    ReferencesBroken,
    RegistryAccessRefused,
    RegistryError,
    SchemaNotFound,
    UnknownSchemaId,
)
from kafkasource.formats.registry.definitions import (
    LATEST,
    Definition,
    Reference,
    SubjectVersion,
    definition_of,
    nonsense,
    number_of,
    numbers_of,
    object_of,
    strings_of,
    subject_version_of,
)
from kafkasource.formats.registry.kept import KeptAnswers
from kafkasource.formats.registry.references import resolved
from kafkasource.formats.registry.rest import RestClient
from kafkasource.formats.registry.settings import RegistryOptions
from kafkasource.formats.schema_source import Fingerprint, RegisteredSchema, SchemaId
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.security.quoting import printable

log = logging.getLogger("kafkasource.client")

MOST_VERSIONS_SHIPPED = 50  # each is a request
MOST_UNKNOWN = 100  # ids, then a pause
UNKNOWN_PAUSE_S = 60
_MOST_CLIENTS = 16
_MOST_PLACES = 10_000


@dataclass(frozen=True)
class Compatibility:
    is_compatible: bool
    messages: tuple[str, ...] = ()  # the registry's reasons, where it gives any


class RegistryClient:
    """The client of one registry: a `SchemaSource`. Thread-safe; each call may wait for the registry.

    All calls raise RegistryError or a subclass, and OptionError for files that cannot be read.
    """

    def __init__(
        self,
        options: RegistryOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        """`clock`: seconds; it also decides how long a missing answer is believed."""
        self._rest = RestClient(options, clock, sleep, uniform)
        self._schemas: KeptAnswers[int | UUID, RegisteredSchema] = KeptAnswers(
            lambda found: found.characters, options.missing_id_s, clock=clock
        )
        self._unknown = _UnknownIds(clock)
        self._places: Recent[int, tuple[str, int]] = Recent(_MOST_PLACES)  # version 0: the registry does not say
        self._ids: Recent[tuple[str, int], int] = Recent(_MOST_PLACES)
        # A version's schema stays, unless it is deleted for good. Nothing that is missing is kept here.
        self._versions: KeptAnswers[tuple[str, int], Definition] = KeptAnswers(
            lambda found: len(found.text), 0, clock=clock
        )

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """The schema of an id (of Confluent's GUID from 8.0 on), with its references.

        Raises UnknownSchemaId where the answer depends on the id: the registry has no such id, refuses it to its user,
        or knows no GUIDs. Every other error is a failure of the registry, not a record's fault. After MOST_UNKNOWN
        unknown ids, further ids count as unknown without a request until UNKNOWN_PAUSE_S have passed: a record can name
        any id, and each costs a request.
        """
        if isinstance(schema_id, Fingerprint):
            raise UnknownSchemaId(
                f"a registry knows no schema by its fingerprint ({schema_id}), and the reader's schema has another. "
                "Set 'schemaRegistry' to a function that does"
            )
        try:
            return self._schemas.get(schema_id, lambda: self._ask_schema(schema_id))
        except SchemaNotFound as error:
            raise UnknownSchemaId(str(error)) from None

    def learn(
        self, schemas: Mapping[int, RegisteredSchema], places: Mapping[int, tuple[str, int]] | None = None
    ) -> None:
        """Keep schemas that another process has asked for: no id of them is asked for again. `places`: their subjects
        and versions."""
        for schema_id, schema in schemas.items():
            self._schemas.put(schema_id, schema)
        for schema_id, place in (places or {}).items():
            self._places.put(schema_id, place)
            self._ids.put(place, schema_id)

    def place_of(self, schema_id: int) -> tuple[str, int]:
        """(subject, version) of an id, the version 0 where the registry does not say. Asks at most once for an id."""
        return self._places.of(schema_id, lambda: self._ask_place(schema_id))

    def versions_from(self, schema_id: SchemaId) -> Iterator[tuple[str, RegisteredSchema]]:
        """See `SchemaSource`. Asks for the place of an id that is not known, and for no schema."""
        subject, version = self.place_of(schema_id) if isinstance(schema_id, int) else ("", 0)
        found = self._schemas.known(schema_id) if isinstance(schema_id, int) else None
        while found is not None and version > 0:
            yield f"version {version} of {printable(subject)}", found
            version -= 1
            earlier = self._ids.get((subject, version))
            found = None if earlier is None else self._schemas.known(earlier)

    def subjects(self) -> list[str]:
        """The names of all subjects, sorted."""
        question = "the list of subjects"
        return sorted(strings_of(self._rest.ask(question, "GET", "/subjects"), question))

    def versions(self, subject: str) -> list[int]:
        """Ascending. Raises SchemaNotFound for a subject that is not there."""
        question = f"the versions of subject '{printable(subject)}'"
        return sorted(numbers_of(self._rest.ask(question, "GET", f"{_path_of(subject)}/versions"), question))

    def version(self, subject: str, version: int = LATEST) -> SubjectVersion:
        """One version of a subject, LATEST among them. Raises SchemaNotFound."""
        place = "latest" if version == LATEST else str(version)
        question = f"subject '{printable(subject)}', version {place}"
        return subject_version_of(self._rest.ask(question, "GET", f"{_path_of(subject)}/versions/{place}"), question)

    def look_up(self, subject: str, definition: Definition) -> SubjectVersion:
        """Find the subject's version with this very schema. Raises SchemaNotFound."""
        question = f"the schema's place in subject '{printable(subject)}'"
        answer = object_of(self._rest.ask(question, "POST", _path_of(subject), definition.json), question)
        return subject_version_of({"schema": definition.text, "schemaType": definition.kind, **answer}, question)

    def register(self, subject: str, definition: Definition, normalize: bool = False) -> int:
        """Add the schema as the latest version, unless the subject has it: its id.

        Raises SchemaIncompatible, SchemaRefused.
        """
        question = f"the registration in subject '{printable(subject)}'"
        path = f"{_path_of(subject)}/versions" + ("?normalize=true" if normalize else "")
        return number_of(object_of(self._rest.ask(question, "POST", path, definition.json), question), "id", question)

    def check(self, subject: str, definition: Definition) -> Compatibility:
        """Whether the subject's rule would let the schema follow its latest version; nothing is registered.

        Raises SchemaNotFound for a subject without versions, SchemaRefused for a text that is no schema.
        """
        question = f"the compatibility with subject '{printable(subject)}'"
        path = f"/compatibility{_path_of(subject)}/versions/latest?verbose=true"
        answer = object_of(self._rest.ask(question, "POST", path, definition.json), question)
        verdict, messages = answer.get("is_compatible"), answer.get("messages") or []
        if not isinstance(verdict, bool) or not isinstance(messages, list):
            raise nonsense(question, "no field 'is_compatible'")
        return Compatibility(verdict, tuple(printable(str(message), 600) for message in messages))

    def resolve(self, definition: Definition, what: str) -> RegisteredSchema:
        """The schema with everything that it refers to. `what`: its name in errors."""
        return resolved(definition, what, self._referenced)

    def known(self, subject: str, most: int = MOST_VERSIONS_SHIPPED) -> dict[int, RegisteredSchema]:
        """The schemas of the subject's newest versions by id, for processes that must not ask for them (`learn`).

        Empty where there is no such subject. A version whose references are broken is left out: perhaps no record has
        its id, and one that has gets the error.
        """
        try:
            newest = self.versions(subject)[-most:]
        except SchemaNotFound:
            return {}
        found: dict[int, RegisteredSchema] = {}
        places: dict[int, tuple[str, int]] = {}
        for number in newest:
            try:
                each = self.version(subject, number)
            except SchemaNotFound:
                continue  # deleted meanwhile
            what = f"subject '{printable(subject)}', version {number}"
            try:
                found[each.schema_id] = self.resolve(each.definition, what)
                places[each.schema_id] = subject, number
            except ReferencesBroken as error:
                log.warning("%s", error)
        self.learn(found, places)
        return found

    def _ask_schema(self, schema_id: int | UUID) -> RegisteredSchema:
        if isinstance(schema_id, UUID):
            question, path = f"schema {schema_id}", f"/schemas/guids/{schema_id}"
        else:
            question, path = f"schema id {schema_id}", f"/schemas/ids/{schema_id}"
        self._unknown.check(question)
        try:
            answer = self._rest.ask(question, "GET", path)
        except SchemaNotFound:
            self._unknown.note()
            raise
        except RegistryAccessRefused as error:
            if error.status != 403 or error.code is None:  # without a code a proxy has refused, whatever the id
                raise
            self._unknown.note()
            raise SchemaNotFound(*error.args) from None
        except RegistryError as error:
            if not isinstance(schema_id, UUID) or type(error) is not RegistryError or error.status != 404:
                raise
            self._unknown.note()
            raise SchemaNotFound(
                f"{error.url}: this registry gives no schema by its GUID ({schema_id}). Confluent's does from 8.0 on",
                *error.args[1:],
            ) from None
        return self.resolve(definition_of(answer, question), question)

    def _ask_place(self, schema_id: int) -> tuple[str, int]:
        question = f"the versions with schema id {schema_id}"
        try:
            answer = self._rest.ask(question, "GET", f"/schemas/ids/{schema_id}/versions")
            found = [object_of(each, question) for each in answer] if isinstance(answer, list) else []
            places = [(each.get("subject"), number_of(each, "version", question)) for each in found]
        except RegistryError as error:
            log.info("a reason names no version: %s", error)
            places = []
        return next(((subject, version) for subject, version in places if isinstance(subject, str)), ("", 0))

    def _referenced(self, reference: Reference) -> Definition:
        """A soft-deleted version, too: the schemas that refer to it are still there."""

        def ask() -> Definition:
            place = "latest" if reference.version == LATEST else str(reference.version)
            question = f"the reference {reference}"
            path = f"{_path_of(reference.subject)}/versions/{place}?deleted=true"
            return definition_of(self._rest.ask(question, "GET", path), question)

        if reference.version == LATEST:
            return ask()
        return self._versions.get((reference.subject, reference.version), ask)


class _UnknownIds:
    """Counts the ids that the registry did not give, so that records cannot make a client ask without end.

    Thread-safe.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._first_s = 0.0  # when the first of them was counted
        self._until_s = -math.inf  # the end of the pause

    def note(self) -> None:
        with self._lock:
            now_s = self._clock()
            if self._count == 0 or now_s >= self._first_s + UNKNOWN_PAUSE_S:
                self._count, self._first_s = 0, now_s
            self._count += 1
            if self._count >= MOST_UNKNOWN:
                self._count, self._until_s = 0, now_s + UNKNOWN_PAUSE_S
                log.warning(
                    "the schema registry did not know %d ids that records name: for %d s it is asked for no further "
                    "id, and records that name one are bad",
                    *(MOST_UNKNOWN, UNKNOWN_PAUSE_S),
                )

    def check(self, question: str) -> None:
        """Raise UnknownSchemaId during the pause."""
        with self._lock:
            if self._clock() < self._until_s:
                raise UnknownSchemaId(
                    f"the registry is not asked for {question}: it did not know {MOST_UNKNOWN} ids shortly before. "
                    f"It is asked again {UNKNOWN_PAUSE_S} s after the last of them"
                )


def _path_of(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


class _Clients:
    """The clients of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_options: Recent[RegistryOptions, RegistryClient] = Recent(_MOST_CLIENTS)

    def of(self, options: RegistryOptions) -> RegistryClient:
        with self._lock:
            return self._by_options.of(options, lambda: RegistryClient(options))


_clients: PerProcess[_Clients] = PerProcess(_Clients)


def registry_of(options: RegistryOptions) -> RegistryClient:
    """The process's client of these options: tasks share what it keeps. A forked child has its own."""
    return _clients.get().of(options)
