"""Every error the package raises, and THE table of Kafka's error codes.

The root is `KafkaSourceError`. An error code from a broker is a `BrokerError`, and its row in the table says what the
code means to a client. Codes, names, `retriable` and `refresh_metadata` are those of Kafka's own `Errors` enum, except
for code 8; a test compares them with the jar. A fault on the way to the broker is a `TransportError`. Bytes that break
the protocol are a `ProtocolError`.

Others choose names that errors quote, and a terminal obeys what is in them: a control character changes its colours,
its title or its keyboard, U+202E turns the order of letters around, U+200B hides in a name. `escaped` makes text safe
to show, here and wherever else the package prints.

Invariant: every error pickles with its message and attributes, because Spark sends them between processes:
`type(e)(*e.args)` rebuilds it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, TypeAlias, TypeVar

_NOT_SHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, formats (order and width), half surrogate pairs, line ends


def escaped(text: str, keep: str = "\t\n") -> str:
    r"""The text with each character that a terminal does not show as one: `\x1b`; above U+001F as JSON has it,
    `\u202e`. Of bytes, decoded with surrogateescape, those that are no UTF-8 as `\x9b`."""
    if text.isprintable():
        return text
    from unicodedata import category  # most processes meet no such text

    return "".join(c if c in keep or category(c) not in _NOT_SHOWN else _escape(c) for c in text)


def few(names: Collection[object], most: int = 5) -> str:
    """The first names, for the text of an error or a line of a log, and how many more there are."""
    shown = ", ".join(map(str, islice(names, most)))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return json.dumps(character)[1:-1]


def explained(entry: str) -> str:
    """The last words of an error's text: where the user finds what to do. `entry`: the anchor in the page."""
    return f"(docs/troubleshooting.md#{entry})"


class KafkaSourceError(Exception):
    """Root of all errors that this package raises on purpose. Any other error that escapes is a bug."""

    retriable: bool = False  # whether the same request may succeed later
    refresh_metadata: bool = False  # whether the client must ask for the leaders again before it retries
    says_all: bool = True  # whether the text is enough for a user; False: the traceback may show a bug of ours

    def __str__(self) -> str:
        return escaped(super().__str__())  # it may quote what others have written


class OptionError(KafkaSourceError, ValueError):
    """An option is unknown, malformed, out of bounds or contradicts another; the text says what to use instead."""


class ProtocolError(KafkaSourceError):
    """Bytes break Kafka's protocol. The connection that they came from is no longer usable."""

    says_all = False


class AnswerTooLarge(ProtocolError):
    """A broker's answer would take more memory than we give to one. The same request gets the same answer again."""


class PartitionUnanswered(ProtocolError):
    """A broker's answer to Produce leaves out a partition. The next answer may have it."""

    retriable = True


class CorruptRecordBatch(ProtocolError):
    """A record batch fails its CRC or contradicts itself. A second fetch on a new connection may bring a good copy."""


class MalformedRecordTimestamp(CorruptRecordBatch):
    """A timestamp is larger than Spark's microseconds can hold. Its producer wrote it so; another fetch cannot help."""

    def __str__(self) -> str:
        return f"[KAFKA_MALFORMED_RECORD_TIMESTAMP] {super().__str__()}"


class UnsupportedRecordFormat(ProtocolError):
    """Records in a form that this version does not read: an unknown codec."""


class UnsupportedApiVersion(KafkaSourceError):
    """Broker and client share no version of an API, or the broker does not serve it; the text gives both ranges."""


class TransportError(KafkaSourceError):
    """The connection to a broker failed. A retry, perhaps with another broker, can help."""

    retriable = True
    refresh_metadata = True  # other brokers now lead the partitions of a broker that went away


class ConnectFailed(TransportError):
    """No connection: refused, unreachable, unknown host name, or too slow. Nothing was sent, so nothing happened."""


class TlsUnanswered(ConnectFailed):
    """The broker closed the connection at the first message of TLS: it stops, or the port is one without TLS."""


class ConnectionLost(TransportError):
    """The connection ended with requests in flight. Their outcome is unknown: the broker may have acted on them."""


class RequestTimeout(TransportError):
    """No complete response before the request's deadline; the connection is closed. The outcome is unknown."""

    received_bytes = 0  # bytes of the incomplete response


class TlsError(KafkaSourceError):
    """TLS to a broker fails, and will again until a setting or a certificate changes. The text says which."""


class BrokerCertificateRefused(TlsError):
    """The client does not trust the broker's certificate. Nothing but the TLS handshake was sent."""


class ClientCertificateRefused(TlsError):
    """The broker asks for a client certificate and got none, or refuses the client's certificate."""


class ClientClosed(KafkaSourceError):
    """The client was closed, before or while the request waited."""


class DeadlineExceeded(KafkaSourceError):
    """Retries did not succeed in time.

    The text has the last error's text. If the last attempt had no answer, it adds a broker's earlier answer.
    `__cause__` is the last error, unless pickled.
    """


class GivenUp(KafkaSourceError):
    """The caller stopped waiting for an answer, by a limit of its own (`Caller.giving_up`)."""


class TaskCancelled(KafkaSourceError):
    """Spark cancelled the task that runs here. Nobody reads its report, nor this error."""


class CommitFailed(KafkaSourceError):
    """A group member cannot commit: it has lost its partitions, and other members may read them already."""


class GroupInUse(KafkaSourceError):
    """A consumer group that a query must have to itself (`groupOwnership=exclusive`) has other members."""


class BootstrapFailed(KafkaSourceError):
    """None of the bootstrap servers could be used before the deadline.

    `attempts` is what was tried: ("host:port", "reason") pairs, the last reason of each address.
    """

    def __init__(self, attempts: tuple[tuple[str, str], ...], waited_ms: int) -> None:
        super().__init__(attempts, waited_ms)
        self.attempts = attempts
        self.waited_ms = waited_ms

    @property
    def tried(self) -> str:
        return "; ".join(f"{address}: {reason}" for address, reason in self.attempts) or "nothing was tried"

    def __str__(self) -> str:
        return escaped(
            f"no bootstrap server answered within {self.waited_ms} ms ({self.tried}). Check kafka.bootstrap.servers and"
            " that the brokers run and accept connections from this machine; they are tried for"
            f" kafka.default.api.timeout.ms {explained('no-bootstrap-server-answered-within')}"
        )


class BootstrapHopeless(BootstrapFailed):
    """Each bootstrap server speaks something other than Kafka's protocol, or no TLS where the client does."""

    def __str__(self) -> str:
        return escaped(
            f"no bootstrap server can be used with these options ({self.tried}). Check kafka.bootstrap.servers and"
            f" kafka.security.protocol {explained('no-bootstrap-server-can-be-used-with-these-options')}"
        )


class ClusterMismatch(KafkaSourceError):
    """A broker belongs to another cluster than the first broker. Offsets of two clusters must never be mixed."""


class AuthenticationFailed(KafkaSourceError):
    """Client and broker do not accept each other. The same credentials fail again, so a retry cannot help."""


class SaslExchangeFailed(AuthenticationFailed):
    """The broker's part of a SASL exchange is malformed, too weak, or does not prove that the broker is the right one.

    Nothing that the client has sent gives its secret away. The text never quotes what the broker sent as it is.
    """


class TokenNotAvailable(KafkaSourceError):
    """The source of credentials (a token endpoint, a file, a vendor's metadata) did not answer. It may later."""

    retriable = True


class TokenRefused(AuthenticationFailed):
    """The source of OAuth tokens refuses to give one, or gives one that cannot be used."""


class DataLoss(KafkaSourceError):
    """Records that the query had to read are lost, and `failOnDataLoss` is true. The text gives the exact range."""


class SchemaError(KafkaSourceError, ValueError):
    """A schema's text is malformed, too large or recursive, or records of one schema cannot be read by another.

    The text begins with the place in the schema.
    """


class BadRecord(KafkaSourceError):
    """A record's key or value is not what its format says: `BadRecord(what, next_step)`.

    `what` names the record and the reason, without a full stop. The next step is for whoever reads the text.
    """

    @property
    def what(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return escaped(". ".join(self.args))


class UnknownSchemaId(KafkaSourceError):
    """The source of schemas says itself that it has no such id: a fault of the record that names it."""


class RegistryError(KafkaSourceError):
    """A request to a schema registry failed. The text names the question, the URL and the next step.

    Never a record's fault: a record that names an unknown id raises `UnknownSchemaId`. This class itself is raised for
    an answer that makes no sense, as a wrong URL gives, and for a refusal without a class of its own.
    """

    def __init__(self, text: str, url: str = "", status: int | None = None, code: int | None = None) -> None:
        """`status`: of HTTP; `code`: the registry's own (`error_code`). None: there was none."""
        super().__init__(text, url, status, code)
        self.url = url
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return escaped(str(self.args[0]))


class RegistryUnavailable(RegistryError):
    """No URL of the registry gave an answer for as long as the client asks again. Nothing is known of the schema."""

    retriable = True


class RegistryAccessRefused(RegistryError):
    """The registry and the client do not accept each other: credentials, a missing right, or a certificate."""


class SchemaNotFound(RegistryError):
    """The registry itself says that it has no such id, subject or version."""


class ReferencesBroken(RegistryError):
    """A registered schema refers to schemas that are missing, are too many, or are the schema itself."""


class SchemaIncompatible(RegistryError):
    """The registry does not register the schema: earlier versions of the subject forbid it."""


class SchemaRefused(RegistryError):
    """The registry says that a schema, a reference, a version or a subject's name is not valid."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the error table."""

    code: int
    name: str  # Kafka's name, as its logs and tools print it
    doc: str  # the meaning, and the user's next step
    retriable: bool = False  # Java: RetriableException
    refresh_metadata: bool = False  # Java: InvalidMetadataException
    refresh_coordinator: bool = False  # the client must find the coordinator of the group or transaction again
    unknown: bool = False  # neither the broker nor this client knows the cause
    no_such_topic: bool = False  # the broker does not know the topic
    nothing_stored: bool = False  # Produce: the broker has stored nothing of the batch, and will not
    refuses_record: bool = False  # Produce: the reason is in one record; without it, the broker takes the others
    transaction_gone: bool = False  # the transaction has ended otherwise: its producer was fenced, or it was aborted
    fenced: bool = False  # the transactional id is no longer this producer's


E = TypeVar("E", bound="BrokerError")


class BrokerError(KafkaSourceError):
    """A broker answered with an error code. `context` names the request, topic, partition or group.

    Codes that callers distinguish have a subclass; `error_for` chooses it. Catch the class, or ask the `row`.
    """

    CODE: ClassVar[int] = 0  # of a class that stands for one code

    def __init__(self, code: int, context: str = "", *, retriable: bool | None = None) -> None:
        """`retriable`: given where the request, not the code, decides whether a retry can help."""
        super().__init__(code, context)
        self.code = code
        self.context = context
        self.name, self.doc = self.row.name, self.row.doc
        self.retriable = self.row.retriable if retriable is None else retriable
        self.refresh_metadata = self.row.refresh_metadata

    @property
    def row(self) -> ErrorCode:
        """The code's row in the table."""
        return row_of(self.code)

    def at(self: E, context: str) -> E:
        """The same error with another context."""
        return type(self)(self.code, context, *self.args[2:], retriable=self.retriable)

    @property
    def reason(self) -> str:
        """The text without its context."""
        return f"{self.name} ({self.code}): {self.doc}"

    def __str__(self) -> str:
        text = escaped(f"{self.context}: {self.reason}") if self.context else self.reason
        return f"{text} {explained(EXPLAINED[self.code])}" if self.code in EXPLAINED else text


class AuthorizationFailed(BrokerError):
    """An ACL is missing. A retry cannot help. After the ACL is granted, a restart can.

    The text names the right to grant, which depends on the API where it is not the usual one of its code, and the
    client's user. `api`: Kafka's name of the API that was refused; `client`: a predicate, as "is logged in as 'alice'".
    Both are empty where they are not known.
    """

    def __init__(
        self, code: int, context: str = "", api: str = "", client: str = "", *, retriable: bool | None = None
    ) -> None:
        super().__init__(code, context, retriable=retriable)
        self.api = self.client = ""
        self.refused(api, client)

    def refused(self, api: str, client: str) -> None:
        """Add the API and the client, which the caller of the broker knows. Known values stay."""
        self.api, self.client = self.api or api, self.client or client
        self.doc = _GRANTS.get((self.api, self.code), self.doc)
        self.args = (self.code, self.context, self.api, self.client)

    @property
    def reason(self) -> str:
        return super().reason + (f" This client {self.client}." if self.client else "")


X = TypeVar("X", bound=BaseException)


def refusal(error: X, api: str, client: str) -> X:
    """The error; if it is of a missing permission, it knows the API and the client from now on."""
    if isinstance(error, AuthorizationFailed):
        error.refused(api, client)
    return error


_GRANTS = {
    ("DescribeLogDirs", 31): "No permission to see how large logs are: grant Describe on the cluster.",
    ("CreateTopics", 29): "No permission to create the topic: grant Create on it, or on the cluster.",
    ("CreatePartitions", 29): "No permission to add partitions: grant Alter on the topic.",
    ("DeleteTopics", 29): "No permission to delete the topic: grant Delete on it.",
    ("DescribeConfigs", 29): "No permission to see the topic's settings: grant DescribeConfigs on it.",
    ("AlterConfigs", 29): "No permission to change the topic's settings: grant AlterConfigs on it.",
    ("IncrementalAlterConfigs", 29): "No permission to change the topic's settings: grant AlterConfigs on it.",
    ("OffsetCommit", 29): "No permission to commit offsets of the topic: grant Read on it.",
    ("TxnOffsetCommit", 29): "No permission to commit offsets of the topic: grant Read on it.",
    ("OffsetDelete", 29): "No permission to delete offsets of the topic: grant Read on it.",
    (
        "FindCoordinator",
        30,
    ): "No permission to see the consumer group: grant Read on it, or Describe to look at it only. "
    "It is kafka.group.id of a query that reads; of one that writes with exactly_once there are two, "
    "'transactionalIdPrefix' with -marker and with -kept added.",
    ("DeleteGroups", 30): "No permission to delete the group: grant Delete on it.",
    ("OffsetDelete", 30): "No permission to delete offsets of the group: grant Delete on it.",
    ("DescribeGroups", 30): "No permission to see the group: grant Describe on it.",
    ("ConsumerGroupDescribe", 30): "No permission to see the group: grant Describe on it.",
}


Columns: TypeAlias = dict[str, bool]  # those of a row that are true

FATAL: Columns = {}
UNKNOWN = {"unknown": True}
RETRY = {"retriable": True}
REFRESH = RETRY | {"refresh_metadata": True}
NO_TOPIC = REFRESH | {"no_such_topic": True}
FIND_COORDINATOR = RETRY | {"refresh_coordinator": True}
NOT_STORED = {"nothing_stored": True}
BAD_RECORD = NOT_STORED | {"refuses_record": True}
GONE = {"transaction_gone": True}
FENCED = GONE | {"fenced": True}
"""A newer producer has the transactional id. Or brokers aborted the transaction when its time was up. Or they forgot an
id that was not used for their `transactional.id.expiration.ms` (code 49)."""

# fmt: off
TABLE: dict[int, ErrorCode] = {
    code: ErrorCode(code, name, doc, **columns)
    for code, name, columns, doc in (
        (-1, "UNKNOWN_SERVER_ERROR", UNKNOWN,
         "The broker failed for a reason that has no code; its log (server.log) says why."),
        (0, "NONE", FATAL, "No error."),
        (1, "OFFSET_OUT_OF_RANGE", FATAL,
         "The offset is not in the log: it is below the log start, or above the log end."),
        (2, "CORRUPT_MESSAGE", RETRY, "The records fail their CRC, exceed a size, or lack a key in a compacted topic."),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", NO_TOPIC,
         "This server does not host this topic-partition: misspelt, deleted, or created a moment ago; "
         "check subscribe / topic."),
        (4, "INVALID_FETCH_SIZE", FATAL, "The requested fetch size is invalid."),
        (5, "LEADER_NOT_AVAILABLE", REFRESH,
         "The partition has no leader at the moment; an election is under way or its replicas are down."),
        (6, "NOT_LEADER_OR_FOLLOWER", REFRESH,
         "The asked broker no longer serves the partition: refresh metadata, then ask the new leader."),
        (7, "REQUEST_TIMED_OUT", RETRY,
         "The broker gave up waiting (often for replicas); the request may still have taken effect."),
        # FATAL in Kafka's table and for Java's clients. Other servers give it while they start; librdkafka asks again.
        (8, "BROKER_NOT_AVAILABLE", REFRESH, "The broker is not available."),
        (9, "REPLICA_NOT_AVAILABLE", REFRESH, "The replica is not available on this broker."),
        (10, "MESSAGE_TOO_LARGE", BAD_RECORD,
         "A record batch is larger than the topic allows: raise the topic's max.message.bytes, or send smaller "
         "records."),
        (11, "STALE_CONTROLLER_EPOCH", FATAL, "The controller moved to another broker."),
        (12, "OFFSET_METADATA_TOO_LARGE", FATAL,
         "The metadata string of an offset commit is larger than offset.metadata.max.bytes (4096) of the "
         "broker."),
        (13, "NETWORK_EXCEPTION", REFRESH, "The broker lost one of its own connections while it handled the request."),
        (14, "COORDINATOR_LOAD_IN_PROGRESS", FIND_COORDINATOR, "The coordinator is still loading its state."),
        (15, "COORDINATOR_NOT_AVAILABLE", FIND_COORDINATOR,
         "There is no coordinator yet, for instance while the offsets or transaction topic is being created."),
        (16, "NOT_COORDINATOR", FIND_COORDINATOR, "The asked broker is no longer the coordinator: find it again."),
        (17, "INVALID_TOPIC_EXCEPTION", FATAL,
         "The topic's name is not legal (1 to 249 of a-z A-Z 0-9 . _ -), or the topic is internal."),
        (18, "RECORD_LIST_TOO_LARGE", BAD_RECORD,
         "The record batch is larger than the broker's segment size: lower kafka.batch.size."),
        (19, "NOT_ENOUGH_REPLICAS", RETRY | NOT_STORED,
         "Fewer in-sync replicas than the topic's min.insync.replicas: nothing was written; a broker may be "
         "down."),
        (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", RETRY,
         "Written, but by then fewer replicas were in sync than min.insync.replicas asks."),
        (21, "INVALID_REQUIRED_ACKS", FATAL, "acks must be -1 (all), 0 or 1."),
        (22, "ILLEGAL_GENERATION", FATAL, "The group moved on to another generation."),
        (23, "INCONSISTENT_GROUP_PROTOCOL", FATAL,
         "The group's members speak other protocols: use another kafka.group.id."),
        (24, "INVALID_GROUP_ID", FATAL, "The group id is empty or not legal: check kafka.group.id."),
        (25, "UNKNOWN_MEMBER_ID", FATAL,
         "The group has live members, and this client is not one of them: another consumer uses the same "
         "kafka.group.id."),
        (26, "INVALID_SESSION_TIMEOUT", FATAL,
         "The session timeout is outside group.min.session.timeout.ms to group.max.session.timeout.ms of the "
         "broker."),
        (27, "REBALANCE_IN_PROGRESS", FATAL,
         "The group is rebalancing: another consumer uses the same kafka.group.id."),
        (28, "INVALID_COMMIT_OFFSET_SIZE", FATAL, "The offset commit is too large."),
        (29, "TOPIC_AUTHORIZATION_FAILED", FATAL,
         "No permission for the topic: grant Describe plus Read (to read) or Write (to write) on it, or correct the "
         "option that names it ('subscribe', 'assign', 'topic')."),
        (30, "GROUP_AUTHORIZATION_FAILED", FATAL,
         "No permission for the consumer group: grant Read on it. It is kafka.group.id of a query that reads; of one "
         "that writes with exactly_once there are two, 'transactionalIdPrefix' with -marker and with -kept added."),
        (31, "CLUSTER_AUTHORIZATION_FAILED", FATAL,
         "No permission on the cluster. To write with 'kafka.enable.idempotence', grant IdempotentWrite on it (from "
         "Kafka 2.8 on Write on any topic will do), or set the option to false; otherwise, what the request needs."),
        (32, "INVALID_TIMESTAMP", BAD_RECORD,
         "The record's timestamp is further from the broker's clock than the topic allows: correct the column "
         "timestamp, or the topic's message.timestamp.before.max.ms and .after.max.ms."),
        (33, "UNSUPPORTED_SASL_MECHANISM", FATAL,
         "The broker has not enabled this SASL mechanism: check kafka.sasl.mechanism."),
        (34, "ILLEGAL_SASL_STATE", FATAL, "The request is not legal at this point of the SASL exchange."),
        (35, "UNSUPPORTED_VERSION", FATAL, "The broker does not serve this version of the API."),
        (36, "TOPIC_ALREADY_EXISTS", FATAL, "A topic of this name exists already."),
        (37, "INVALID_PARTITIONS", FATAL,
         "The number of partitions must be at least 1, and larger than now when partitions are added."),
        (38, "INVALID_REPLICATION_FACTOR", FATAL,
         "The replication factor is below 1 or larger than the number of brokers: choose another."),
        (39, "INVALID_REPLICA_ASSIGNMENT", FATAL, "The replica assignment is invalid."),
        (40, "INVALID_CONFIG", FATAL, "A topic or broker setting in the request is invalid."),
        (41, "NOT_CONTROLLER", RETRY, "The asked broker is not the controller."),
        (42, "INVALID_REQUEST", FATAL, "The broker finds the request malformed; its log says why."),
        (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", FATAL,
         "The topic's message format on this broker cannot serve the request."),
        (44, "POLICY_VIOLATION", FATAL, "The cluster's policy refuses the request."),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", NOT_STORED,
         "The batch's sequence does not follow the last one: a batch before it is missing, or this is an old "
         "duplicate."),
        (46, "DUPLICATE_SEQUENCE_NUMBER", FATAL, "The broker has these records already."),
        (47, "INVALID_PRODUCER_EPOCH", FENCED, "A newer producer epoch exists: this producer is fenced."),
        (48, "INVALID_TXN_STATE", GONE, "The transaction is not in a state that allows this."),
        (49, "INVALID_PRODUCER_ID_MAPPING", FENCED,
         "The producer id is not the one assigned to this transactional id."),
        (50, "INVALID_TRANSACTION_TIMEOUT", FATAL,
         "The transaction timeout is larger than the broker's transaction.max.timeout.ms: lower "
         "kafka.transaction.timeout.ms."),
        (51, "CONCURRENT_TRANSACTIONS", RETRY | NOT_STORED,
         "Another operation on the same transaction is still going on."),
        (52, "TRANSACTION_COORDINATOR_FENCED", FATAL, "Another broker is the transaction coordinator now."),
        (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", FATAL,
         "No permission for the transactional id: grant Write and Describe on all that begin with the query's "
         "'transactionalIdPrefix' (kafka-acls --resource-pattern-type prefixed), or correct the option."),
        (54, "SECURITY_DISABLED", FATAL, "The cluster runs without an authorizer."),
        (55, "OPERATION_NOT_ATTEMPTED", FATAL,
         "The broker did not try this part, because another part of the request failed."),
        (56, "KAFKA_STORAGE_ERROR", REFRESH, "The disk of the leader failed; another replica will take over."),
        (57, "LOG_DIR_NOT_FOUND", FATAL, "The named log directory is not configured on the broker."),
        (58, "SASL_AUTHENTICATION_FAILED", FATAL, "The credentials are wrong: check kafka.sasl.*."),
        (59, "UNKNOWN_PRODUCER_ID", FATAL,
         "The broker no longer remembers this producer id (its records were deleted, or it was idle too long)."),
        (60, "REASSIGNMENT_IN_PROGRESS", FATAL, "A partition reassignment is in progress."),
        (61, "DELEGATION_TOKEN_AUTH_DISABLED", FATAL, "Delegation tokens are not enabled."),
        (62, "DELEGATION_TOKEN_NOT_FOUND", FATAL, "The broker does not know this delegation token."),
        (63, "DELEGATION_TOKEN_OWNER_MISMATCH", FATAL, "The delegation token belongs to another user."),
        (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", FATAL,
         "Delegation tokens cannot be requested on this kind of connection."),
        (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", FATAL, "No permission for the delegation token."),
        (66, "DELEGATION_TOKEN_EXPIRED", FATAL, "The delegation token has expired: get a new one."),
        (67, "INVALID_PRINCIPAL_TYPE", FATAL, "The type of principal is not supported."),
        (68, "NON_EMPTY_GROUP", FATAL, "The group still has members or offsets."),
        (69, "GROUP_ID_NOT_FOUND", FATAL, "The group does not exist."),
        (70, "FETCH_SESSION_ID_NOT_FOUND", RETRY, "The broker dropped the fetch session: start a new one."),
        (71, "INVALID_FETCH_SESSION_EPOCH", RETRY,
         "The fetch session's epoch is not the expected one: start a new one."),
        (72, "LISTENER_NOT_FOUND", REFRESH,
         "The leader has no listener of the name this connection uses: check its advertised.listeners."),
        (73, "TOPIC_DELETION_DISABLED", FATAL,
         "The cluster does not allow topics to be deleted (delete.topic.enable)."),
        (74, "FENCED_LEADER_EPOCH", REFRESH, "The client's leader epoch is older than the broker's: refresh metadata."),
        (75, "UNKNOWN_LEADER_EPOCH", RETRY, "The client's leader epoch is newer than the broker's, which lags behind."),
        (76, "UNSUPPORTED_COMPRESSION_TYPE", FATAL,
         "The topic's compression (zstd) cannot be served to this version of the API."),
        (77, "STALE_BROKER_EPOCH", FATAL, "The broker's epoch changed."),
        (78, "OFFSET_NOT_AVAILABLE", RETRY, "The new leader does not know yet how far the log is committed."),
        (79, "MEMBER_ID_REQUIRED", FATAL,
         "The group needs a member id first: join again with the one in the response."),
        (80, "PREFERRED_LEADER_NOT_AVAILABLE", REFRESH, "The preferred leader is not available."),
        (81, "GROUP_MAX_SIZE_REACHED", FATAL, "The group is full (group.max.size)."),
        (82, "FENCED_INSTANCE_ID", FATAL,
         "Another consumer registered with the same group.instance.id: give each its own."),
        (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", REFRESH, "No replica is eligible to be the leader."),
        (84, "ELECTION_NOT_NEEDED", REFRESH, "No leader election is needed."),
        (85, "NO_REASSIGNMENT_IN_PROGRESS", FATAL, "No partition reassignment is in progress."),
        (86, "GROUP_SUBSCRIBED_TO_TOPIC", FATAL,
         "The group reads the topic at the moment, so its offsets cannot be deleted."),
        (87, "INVALID_RECORD", BAD_RECORD,
         "The broker refuses the record: its fields contradict each other, or the topic's rules."),
        (88, "UNSTABLE_OFFSET_COMMIT", RETRY, "A transaction that writes this group's offsets is still open."),
        (89, "THROTTLING_QUOTA_EXCEEDED", RETRY, "The client exceeded its quota and must wait."),
        (90, "PRODUCER_FENCED", FENCED,
         "A newer producer with the same transactional id took over; this one must stop."),
        (91, "RESOURCE_NOT_FOUND", FATAL, "The request refers to something that does not exist."),
        (92, "DUPLICATE_RESOURCE", FATAL, "The request refers to the same thing twice."),
        (93, "UNACCEPTABLE_CREDENTIAL", FATAL, "The credential does not meet the rules (SCRAM iterations, length)."),
        (94, "INCONSISTENT_VOTER_SET", FATAL, "The voter sets differ."),
        (95, "INVALID_UPDATE_VERSION", FATAL, "The feature's version is invalid."),
        (96, "FEATURE_UPDATE_FAILED", FATAL, "The features could not be updated."),
        (97, "PRINCIPAL_DESERIALIZATION_FAILURE", FATAL,
         "The brokers cannot forward the request: their security setup is wrong."),
        (98, "SNAPSHOT_NOT_FOUND", FATAL, "The snapshot does not exist."),
        (99, "POSITION_OUT_OF_RANGE", FATAL, "The position is outside the snapshot."),
        (100, "UNKNOWN_TOPIC_ID", NO_TOPIC,
         "No topic has this id here: it was deleted (perhaps recreated under its name), or created a moment "
         "ago."),
        (101, "DUPLICATE_BROKER_REGISTRATION", FATAL, "The broker id is taken."),
        (102, "BROKER_ID_NOT_REGISTERED", FATAL, "The broker id is not registered."),
        (103, "INCONSISTENT_TOPIC_ID", REFRESH,
         "The topic id is not the one of the log: the topic was recreated, or the broker lags behind."),
        (104, "INCONSISTENT_CLUSTER_ID", FATAL, "The cluster id differs from the broker's."),
        (105, "TRANSACTIONAL_ID_NOT_FOUND", FATAL, "The transactional id is not known."),
        (106, "FETCH_SESSION_TOPIC_ID_ERROR", RETRY,
         "The fetch session mixed topics with and without ids: start a new one."),
        (107, "INELIGIBLE_REPLICA", FATAL, "A replica may not join the in-sync set."),
        (108, "NEW_LEADER_ELECTED", FATAL, "Another leader was elected."),
        (109, "OFFSET_MOVED_TO_TIERED_STORAGE", FATAL,
         "The offset was moved to tiered storage; only brokers fetch it there."),
        (110, "FENCED_MEMBER_EPOCH", FATAL, "The coordinator knows the member with another epoch: join again."),
        (111, "UNRELEASED_INSTANCE_ID", FATAL,
         "Another member still uses the group.instance.id: give each its own, or wait until that member's session "
         "has ended."),
        (112, "UNSUPPORTED_ASSIGNOR", FATAL,
         "The group's coordinator does not have the assignor: check kafka.group.remote.assignor."),
        (113, "STALE_MEMBER_EPOCH", FATAL,
         "The member's epoch is not the coordinator's any more: the next heartbeat brings the new one."),
        (114, "MISMATCHED_ENDPOINT_TYPE", FATAL,
         "The request went to the wrong kind of endpoint (controller instead of broker, or the reverse)."),
        (115, "UNSUPPORTED_ENDPOINT_TYPE", FATAL, "This kind of endpoint is not supported."),
        (116, "UNKNOWN_CONTROLLER_ID", FATAL, "The controller id is not known."),
        (117, "UNKNOWN_SUBSCRIPTION_ID", FATAL, "The telemetry subscription is outdated."),
        (118, "TELEMETRY_TOO_LARGE", FATAL, "The telemetry is larger than the broker takes."),
        (119, "INVALID_REGISTRATION", FATAL, "The controller refuses the broker's registration."),
        (120, "TRANSACTION_ABORTABLE", FATAL, "The transaction must be aborted; the transactional id can be used on."),
        (121, "INVALID_RECORD_STATE", FATAL, "The record is not in a state that can be acknowledged."),
        (122, "SHARE_SESSION_NOT_FOUND", RETRY, "The broker dropped the share session."),
        (123, "INVALID_SHARE_SESSION_EPOCH", RETRY, "The share session's epoch is not the expected one."),
        (124, "FENCED_STATE_EPOCH", FATAL, "The share group's epoch does not match."),
        (125, "INVALID_VOTER_KEY", FATAL, "The voter's key does not match."),
        (126, "DUPLICATE_VOTER", FATAL, "The voter is in the set already."),
        (127, "VOTER_NOT_FOUND", FATAL, "The voter is not in the set."),
        (128, "INVALID_REGULAR_EXPRESSION", FATAL, "The regular expression is not valid."),
        (129, "REBOOTSTRAP_REQUIRED", FATAL,
         "The client's metadata is too old: start again from the bootstrap servers."),
        (130, "STREAMS_INVALID_TOPOLOGY", FATAL, "The streams topology is invalid."),
        (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", FATAL, "The streams topology's epoch is invalid."),
        (132, "STREAMS_TOPOLOGY_FENCED", FATAL, "The streams topology is outdated."),
        (133, "SHARE_SESSION_LIMIT_REACHED", RETRY, "The broker has no room for another share session."),
    )
}
# fmt: on
"""Kafka's error codes, as of 4.3.1."""

EXPLAINED = {
    3: "unknown_topic_or_partition",
    14: "coordinator_not_available",
    15: "coordinator_not_available",
    **dict.fromkeys((29, 30, 31, 53), "topic_authorization_failed"),
    **dict.fromkeys((47, 48, 90, 120), "is-not-open-any-more"),
}
"""The codes that docs/troubleshooting.md explains: the anchors of their entries, for `explained`."""


def row_of(code: int) -> ErrorCode:
    """The code's row in the table. A code that is newer than the table has a row, too."""
    return TABLE.get(code) or ErrorCode(code, f"ERROR_{code}", "A code newer than this client knows.", **UNKNOWN)


_CLASSES: dict[int, type[BrokerError]] = {}  # by code; other codes are a BrokerError


def _class_of(code: int, *bases: type[KafkaSourceError]) -> type[BrokerError]:
    """The class of a code that callers distinguish. Its name is Kafka's: OFFSET_OUT_OF_RANGE is OffsetOutOfRange."""
    name = "".join(map(str.capitalize, TABLE[code].name.removesuffix("_EXCEPTION").split("_")))
    attributes = {"CODE": code, "__doc__": TABLE[code].doc, "__module__": __name__}
    made: type[BrokerError] = type(name, bases or (BrokerError,), attributes)
    _CLASSES[code] = made
    return made


OffsetOutOfRange = _class_of(1)
CorruptMessage = _class_of(2)
UnknownTopicOrPartition = _class_of(3)
LeaderNotAvailable = _class_of(5)
NotLeaderOrFollower = _class_of(6)
MessageTooLarge = _class_of(10)
CoordinatorLoadInProgress = _class_of(14)
CoordinatorNotAvailable = _class_of(15)
NotCoordinator = _class_of(16)
InvalidTopic = _class_of(17)
RecordListTooLarge = _class_of(18)
NotEnoughReplicas = _class_of(19)
IllegalGeneration = _class_of(22)
InconsistentGroupProtocol = _class_of(23)
UnknownMemberId = _class_of(25)
RebalanceInProgress = _class_of(27)
TopicAuthorizationFailed = _class_of(29, AuthorizationFailed)
GroupAuthorizationFailed = _class_of(30, AuthorizationFailed)
ClusterAuthorizationFailed = _class_of(31, AuthorizationFailed)
InvalidTimestamp = _class_of(32)
UnsupportedSaslMechanism = _class_of(33, BrokerError, AuthenticationFailed)
IllegalSaslState = _class_of(34, BrokerError, AuthenticationFailed)
UnsupportedVersion = _class_of(35)
TopicAlreadyExists = _class_of(36)
InvalidPartitions = _class_of(37)
InvalidConfig = _class_of(40)
NotController = _class_of(41)
UnsupportedForMessageFormat = _class_of(43)
PolicyViolation = _class_of(44)
OutOfOrderSequenceNumber = _class_of(45)
DuplicateSequenceNumber = _class_of(46)
InvalidProducerEpoch = _class_of(47)
InvalidTxnState = _class_of(48)
InvalidProducerIdMapping = _class_of(49)
InvalidTransactionTimeout = _class_of(50)
ConcurrentTransactions = _class_of(51)
TransactionalIdAuthorizationFailed = _class_of(53, AuthorizationFailed)
OperationNotAttempted = _class_of(55)
SaslAuthenticationFailed = _class_of(58, BrokerError, AuthenticationFailed)
UnknownProducerId = _class_of(59)
NonEmptyGroup = _class_of(68)
GroupIdNotFound = _class_of(69)
FencedLeaderEpoch = _class_of(74)
UnknownLeaderEpoch = _class_of(75)
OffsetNotAvailable = _class_of(78)
MemberIdRequired = _class_of(79)
FencedInstanceId = _class_of(82)
InvalidRecord = _class_of(87)
UnstableOffsetCommit = _class_of(88)
ProducerFenced = _class_of(90)
UnknownTopicId = _class_of(100)
InconsistentTopicId = _class_of(103)
TransactionalIdNotFound = _class_of(105)
FencedMemberEpoch = _class_of(110)
UnreleasedInstanceId = _class_of(111)
StaleMemberEpoch = _class_of(113)
TransactionAbortable = _class_of(120)
RebootstrapRequired = _class_of(129)


def error_for(code: int, context: str = "", *, retriable: bool | None = None) -> BrokerError:
    """The error of a code: an instance of its own class where there is one, else of `BrokerError`. Not raised."""
    return _CLASSES.get(code, BrokerError)(code, context, retriable=retriable)


def check(code: int, context: str = "") -> None:
    """Raise the error of `code`, unless it is 0."""
    if code:
        raise error_for(code, context)
