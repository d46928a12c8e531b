"""Options of `format("pykafka")`: their table, the types of their values, how a user's are checked, and their docs.

Names are those of Spark's JVM connector; `kafka.*` are those of Kafka's Java clients, with librdkafka's as aliases.
"""

from kafkasource.kafka.security.option import MAX_INT32, Option, Role
from kafkasource.options.connect import REDACTION, hides_secrets, warn_of_secrets_as_text
from kafkasource.options.parse import (
    Options,
    canonical,
    is_others,
    log_warning,
    no_such_column,
    no_warning,
    parse,
    refused,
    shown,
    unknown,
    without_effect,
)
from kafkasource.options.registered import registered
from kafkasource.options.security import SECURITY_NAMES
from kafkasource.options.table import BY_NAME, OPTIONS, SPARKS_OWN
from kafkasource.options.types import DURATION

__all__ = [
    "BY_NAME",
    "DURATION",
    "MAX_INT32",
    "OPTIONS",
    "REDACTION",
    "SECURITY_NAMES",
    "SPARKS_OWN",
    "Option",
    "Options",
    "Role",
    "canonical",
    "hides_secrets",
    "is_others",
    "log_warning",
    "no_such_column",
    "no_warning",
    "parse",
    "refused",
    "registered",
    "shown",
    "unknown",
    "warn_of_secrets_as_text",
    "without_effect",
]
