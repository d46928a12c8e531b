"""Schema registries: Confluent's REST API, which Apicurio, Karapace and Redpanda serve, too.

settings        the options `schemaRegistry.*`: as plans hold them, and resolved
credentials     what proves the client: basic, bearer, OAuth
rest            one question to any of the URLs, with retries
answers         what an answer's status and JSON mean
definitions     a schema as it is registered, and where
references      from a definition to everything that it refers to
kept            what a process keeps of answers, and one question at a time for each id
client          the calls: by id, subject and version; look up, register, check
reader_schema   the option `readerSchema`, as far as a registry answers it
shipped         what the driver knows, for the processes of its tasks
"""

from kafkasource.formats.registry.client import Compatibility, RegistryClient, registry_of
from kafkasource.formats.registry.definitions import Definition, Reference, SubjectVersion
from kafkasource.formats.registry.reader_schema import ReaderSchema, subject_of
from kafkasource.formats.registry.settings import RegistryOptions
from kafkasource.formats.registry.shipped import ShippedSchemas

__all__ = [
    "Compatibility",
    "Definition",
    "ReaderSchema",
    "Reference",
    "RegistryClient",
    "RegistryOptions",
    "ShippedSchemas",
    "SubjectVersion",
    "registry_of",
    "subject_of",
]
