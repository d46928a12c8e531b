"""The schemas that the driver knows, for the processes of its tasks: these ask only for newer ids.

Frozen and of plain values: it pickles into every task, so its size is bounded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.errors import RegistryAccessRefused
from kafkasource.formats.registry.client import MOST_VERSIONS_SHIPPED, RegistryClient, registry_of
from kafkasource.formats.registry.settings import RegistryOptions
from kafkasource.formats.schema_source import RegisteredSchema

log = logging.getLogger("kafkasource.source")

MOST_CHARACTERS = 1 << 20  # of all schemas of a query; the newest go first
MOST_VERSIONS = 200  # of all subjects together


@dataclass(frozen=True)
class ShippedSchemas:
    options: RegistryOptions
    schemas: tuple[tuple[int, RegisteredSchema], ...] = ()  # by their ids
    places: tuple[tuple[int, tuple[str, int]], ...] = ()  # subjects and versions, by the same ids

    @classmethod
    def of(cls, options: RegistryOptions, subjects: Iterable[str]) -> ShippedSchemas:
        """The versions of these subjects; on the driver, once for a query. A subject that is not there has none.

        Raises RegistryError, OptionError.
        """
        client = registry_of(options)
        found: dict[int, RegisteredSchema] = {}
        for subject in subjects:
            most = min(MOST_VERSIONS_SHIPPED, MOST_VERSIONS - len(found))
            if most <= 0:
                break
            try:
                found.update(client.known(subject, most))
            except RegistryAccessRefused as error:
                if error.status != 403:
                    raise
                log.info(
                    "the driver may not see the versions of subject %r, so tasks ask for each id: %s", subject, error
                )
        shipped, left = [], MOST_CHARACTERS
        for schema_id, schema in sorted(found.items(), reverse=True):
            left -= schema.characters
            if left < 0:
                break  # its id, and older ones, are asked for where a record has them
            shipped.append((schema_id, schema))
        places = tuple((schema_id, client.place_of(schema_id)) for schema_id, _ in reversed(shipped))
        return cls(options, tuple(reversed(shipped)), places)

    def source(self) -> RegistryClient:
        """The process's client, which knows these schemas. In the process that decodes."""
        client = registry_of(self.options)
        client.learn(dict(self.schemas), dict(self.places))
        return client
