"""Schemas as a registry has them: text, kind, references to other schemas, and where they are registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkasource.errors import RegistryError
from kafkasource.formats.schema_source import AVRO

LATEST = -1


@dataclass(frozen=True)
class Reference:
    """Says where a schema finds a type that it uses and does not define."""

    name: str  # Avro: the type's full name; Protobuf: the path in `import`; JSON: the text of `$ref`
    subject: str
    version: int  # LATEST: whatever is the latest

    def __str__(self) -> str:
        return f"subject {self.subject!r}, version {'latest' if self.version == LATEST else self.version}"


@dataclass(frozen=True)
class Definition:
    """A schema without its place in the registry."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()

    @property
    def json(self) -> dict[str, object]:
        """Return the JSON for a request. Without `schemaType`, which old registries do not know, AVRO is meant."""
        found: dict[str, object] = {"schema": self.text}
        if self.kind != AVRO:
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [
                {"name": reference.name, "subject": reference.subject, "version": reference.version}
                for reference in self.references
            ]
        return found


@dataclass(frozen=True)
class SubjectVersion:
    subject: str
    version: int
    schema_id: int
    definition: Definition


def definition_of(answer: object, question: str) -> Definition:
    """From an answer's JSON. Raises RegistryError for what is no schema."""
    fields = object_of(answer, question)
    text, kind = fields.get("schema"), fields.get("schemaType") or AVRO
    if not isinstance(text, str) or not isinstance(kind, str):
        raise nonsense(question, "no text of a schema")
    if not _is_unicode(text):
        raise nonsense(question, "a text that is not Unicode")
    references = fields.get("references") or []
    if not isinstance(references, list):
        raise nonsense(question, "no list of references")
    return Definition(text, kind, tuple(_reference_of(reference, question) for reference in references))


def subject_version_of(answer: object, question: str) -> SubjectVersion:
    """From an answer's JSON. Raises RegistryError."""
    fields = object_of(answer, question)
    subject = fields.get("subject")
    if not isinstance(subject, str) or not _is_unicode(subject):
        raise nonsense(question, "no subject")
    version, schema_id = number_of(fields, "version", question), number_of(fields, "id", question)
    return SubjectVersion(subject, version, schema_id, definition_of(answer, question))


def object_of(answer: object, question: str) -> Mapping[str, object]:
    if not isinstance(answer, dict):
        raise nonsense(question, "no JSON object")
    return answer


def number_of(fields: Mapping[str, object], name: str, question: str) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise nonsense(question, f"no number {name!r}")
    return found


def strings_of(answer: object, question: str) -> list[str]:
    if not isinstance(answer, list) or not all(isinstance(entry, str) and _is_unicode(entry) for entry in answer):
        raise nonsense(question, "no list of texts")
    return answer


def numbers_of(answer: object, question: str) -> list[int]:
    if not isinstance(answer, list) or not all(type(entry) is int for entry in answer):
        raise nonsense(question, "no list of numbers")
    return answer


def _reference_of(answer: object, question: str) -> Reference:
    fields = object_of(answer, question)
    name, subject = fields.get("name"), fields.get("subject")
    if not isinstance(name, str) or not isinstance(subject, str) or not _is_unicode(name + subject):
        raise nonsense(question, "a reference without name or subject")
    return Reference(name, subject, number_of(fields, "version", question))


def _is_unicode(text: str) -> bool:
    """Remove halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def nonsense(question: str, what: str) -> RegistryError:
    return RegistryError(
        f"the schema registry's answer for {question} has {what}. Check that schemaRegistry.url is that of a registry "
        "with Confluent's API (Apicurio: .../apis/ccompat/v7)"
    )
