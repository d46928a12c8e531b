"""Which rights exactly once needs, of a real authorizer: those of docs/exactly-once.md, and none can be left out.

The brokers let everybody use what no ACL speaks of, so that they need no second user: what the query uses is closed by
rights of somebody else, and then the query's are granted one by one.
"""

import pickle
import uuid

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql.types import BinaryType, StructField, StructType
from transaction_fakes import FakeContext

from kafkasource.broker import Broker
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import AuthorizationFailed
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.writer import StreamWriter

pytestmark = pytest.mark.broker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
SCHEMA = StructType([StructField("value", BinaryType())])

# The list of docs/exactly-once.md. Write and Read bring Describe.
IDS = (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
GROUPS = (ResourceType.GROUP, AclOperation.READ)
WRITE = (ResourceType.TOPIC, AclOperation.WRITE)
READ = (ResourceType.TOPIC, AclOperation.READ)
RIGHTS = [IDS, GROUPS, WRITE, READ]


class Query:
    """With a prefix and a topic that begin alike, closed to all but somebody else."""

    def __init__(self, servers, monkeypatch, **written):
        self.servers, self.monkeypatch = servers, monkeypatch
        self.name = f"rights-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": servers})
        self.written = written
        with Cluster(ClientConfig.of(servers)) as cluster:
            cluster.topics.create([self.name], partitions=1)
        for kind in (ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP, ResourceType.TOPIC):
            self.grant((kind, AclOperation.ALL), "User:somebody")

    def grant(self, right, to="User:ANONYMOUS"):
        kind, operation = right
        binding = AclBinding(kind, self.name, ResourcePatternType.PREFIXED, to, "*", operation, AclPermissionType.ALLOW)
        for done in self.admin.create_acls([binding]).values():
            done.result(30)

    def writer(self):
        written = {
            "kafka.bootstrap.servers": self.servers,
            "topic": self.name,
            "deliveryGuarantee": "exactly_once",
            "transactionalIdPrefix": self.name,
            "kafka.max.block.ms": "5000",
        }
        return StreamWriter(targets.parse(written | self.written), SCHEMA)

    def write(self, batch_id):
        """A task's message, as after a begin."""
        sent = pickle.dumps(self.writer())
        self.monkeypatch.setattr(writer_module.TaskContext, "get", lambda: FakeContext(batch_id=batch_id))  # type: ignore[attr-defined]
        rows = pa.record_batch([pa.array([b"row"], pa.binary())], names=["value"])
        return pickle.loads(sent).write(iter([rows]))

    def run_batch(self, batch_id):
        self.writer().commit([self.write(batch_id)], batch_id)


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.extended)])
def servers(request):
    with Broker(version=request.param, properties=AUTHORIZER, use_existing=False) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def made(servers, monkeypatch):
    return lambda **written: Query(servers, monkeypatch, **written)


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_the_rights_that_the_readme_lists_are_enough(made, atomic):
    query = made(atomicBatch=atomic)
    for right in RIGHTS:
        query.grant(right)
    query.run_batch(0)
    query.write(1)  # and the application dies
    query.run_batch(1)
    query.writer().abort([query.write(2)], 2)
    query.run_batch(2)


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        (IDS, "grant Write and Describe on all that begin with the query's 'transactionalIdPrefix'"),
        (GROUPS, "'transactionalIdPrefix' with -marker and with -kept behind it"),
        (WRITE, r"grant .* Write \(to write\)"),
        (READ, "grant Read on it: with exactly_once"),
    ],
    ids=["Write on the transactional ids", "Read on the groups", "Write on the topic", "Read on the topic"],
)
def test_none_of_them_can_be_left_out_and_the_error_names_it(made, missing, hint):
    query = made()
    for right in RIGHTS:
        if right != missing:
            query.grant(right)
    with pytest.raises(AuthorizationFailed, match=hint):
        query.run_batch(0)
    query.grant(missing)
    query.run_batch(0)
