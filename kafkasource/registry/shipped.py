"""What the driver knows of a registry, for the processes of its tasks: they ask only for ids that are newer.

Frozen and of plain values: it pickles into every task, so its size is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.registry.client import RegistryClient, registry_of
from kafkasource.registry.settings import RegistryOptions
from kafkasource.typed.schema_source import RegisteredSchema

MOST_CHARACTERS = 1 << 20  # of all schemas of a query; the newest go first


@dataclass(frozen=True)
class ShippedSchemas:
    options: RegistryOptions
    schemas: tuple[tuple[int, RegisteredSchema], ...] = ()  # by their ids

    @classmethod
    def of(cls, options: RegistryOptions, subjects: Iterable[str]) -> ShippedSchemas:
        """The versions of these subjects; on the driver, once for a query. A subject that is not there has none.

        Raises RegistryError, OptionError.
        """
        client, found = registry_of(options), {}
        for subject in subjects:
            found.update(client.known(subject))
        shipped, left = [], MOST_CHARACTERS
        for schema_id, schema in sorted(found.items(), reverse=True):
            left -= schema.characters
            if left < 0:
                break  # its id, and older ones, are asked for where a record has them
            shipped.append((schema_id, schema))
        return cls(options, tuple(reversed(shipped)))

    def source(self) -> RegistryClient:
        """The process's client, which knows these schemas. In the process that decodes."""
        client = registry_of(self.options)
        client.learn(dict(self.schemas))
        return client
