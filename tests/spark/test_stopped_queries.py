"""A query that is stopped in the middle of a micro-batch, or whose only task fails, leaves no transaction open.

On real Spark, since it rests on what Spark calls and when: the driver's abort comes with None in place of the message
of a task that did not report, and the Python worker of a task that was cancelled goes on for some seconds. Where
`query.stop()` interrupts the driver's abort, and Spark's log says so, the query's next start ends the transactions.
"""

import os
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest
from chosen_cases import pairs

from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from lab.campaign.crash_points import ABORTING

pytestmark = [pytest.mark.spark]


def slow_then(ending, flag):
    """More rows than Spark gathers before it gives them to the sink; then they wait for a file, and end by `ending`.

    `cancelled`: they go on meanwhile. Spark's task sees at its next rows that it was cancelled, and closes the
    connection to the sink. A task that waits for rows does not see it, and Spark kills its Python processes.
    """

    def rows(batches):
        some = pa.record_batch([pa.array([bytes(100)] * 10_000, pa.binary())], names=["value"])
        for _ in batches:
            yield from [some] * 4
        while not os.path.exists(flag):
            time.sleep(0.02)
            if ending == "cancelled":
                yield some
        if ending == "fail":
            raise ValueError("no more rows")
        if ending == "kill":
            os.kill(os.getpid(), 9)

    return rows


@contextmanager
def log_of(spark):
    """Gives a function that answers with what Spark's driver has logged since."""
    log4j, text = spark._jvm.org.apache.logging.log4j, spark._jvm.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, text, "log_of", False, True)
    appender.start()
    logger = log4j.LogManager.getContext(False).getRootLogger()
    logger.addAppender(appender)
    try:
        yield text.toString
    finally:
        logger.removeAppender(appender)


class SlowQuery:
    """An exactly-once query that is in the middle of its first micro-batch, with a transaction open."""

    def __init__(self, spark, pykafka, kafka_broker, kafka_topic, folder, ending, atomic):
        source = kafka_topic()
        pykafka.write(spark.createDataFrame([(b"x",)], "value binary"), source)
        self.flag, checkpoint = folder / "go on", str(folder / "checkpoint")
        rows = pykafka.reading(source, stream=True, startingOffsets="earliest").load().select("value")
        self.writing = (
            rows.mapInArrow(slow_then(ending, str(self.flag)), "value binary")
            .writeStream.format("pykafka")
            .option("kafka.bootstrap.servers", kafka_broker.bootstrap_servers)
            .option("checkpointLocation", checkpoint)
            .option("topic", kafka_topic())
            .option("deliveryGuarantee", "exactly_once")
            .option("atomicBatch", atomic)
        )
        self.query = self.writing.start()
        self.cluster = Cluster(ClientConfig.of(kafka_broker.bootstrap_servers))
        while not os.path.exists(f"{checkpoint}/metadata"):
            time.sleep(0.05)
        self.ids = IdentitySource(None, checkpoint).find().ids
        while not self.open_transactions():
            assert self.query.isActive
            time.sleep(0.05)

    def open_transactions(self):
        return [each.transactional_id for each in self.cluster.transactions.list(self.ids.prefix)]


@pytest.fixture
def slow_query(spark, pykafka, kafka_broker, kafka_topic, tmp_path):
    started = []

    def start(ending, atomic):
        started.append(SlowQuery(spark, pykafka, kafka_broker, kafka_topic, tmp_path, ending, atomic))
        return started[-1]

    yield start
    for each in started:
        each.cluster.close()


# In `make test`, tasks that fail or are killed are tested without Spark: test_exactly_once_on_brokers.py
@pytest.mark.parametrize(("ending", "atomic"), pairs(["fail", "kill", "stop"], ["false", "true"], {("stop", "true")}))
def test_no_transaction_is_open_afterwards(spark, slow_query, ending, atomic):
    slow = slow_query(ending, atomic)
    if ending == "stop":
        with log_of(spark) as log:
            slow.query.stop()
            interrupted = "failed to abort" in log()
        slow.flag.touch()
        if interrupted:
            again = slow.writing.start()
            again.processAllAvailable()
            again.stop()
        else:
            assert slow.open_transactions() == []
            time.sleep(5)  # a cancelled worker lives for four seconds: it must open nothing, and end what it has
    else:
        slow.flag.touch()
        with pytest.raises(Exception, match="STREAM_FAILED"):
            slow.query.awaitTermination(120)
    assert slow.open_transactions() == []


def test_a_task_that_spark_cancels_ends_its_transaction_where_the_drivers_abort_is_killed(
    spark, slow_query, crash_file
):
    slow = slow_query("cancelled", "false")
    crash_file.write_text(ABORTING)
    with log_of(spark) as log:
        slow.query.stop()
        # Spark's interrupt may come before the abort has come to our code: then nothing of it runs, and none is killed.
        assert "failed to abort" in log()
    while not set(slow.open_transactions()) <= {slow.ids.driver}:
        time.sleep(0.05)
    slow.flag.touch()
