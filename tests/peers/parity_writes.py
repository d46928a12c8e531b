"""Runs the writes of a parity case through Spark. What they wrote is read by confluent-kafka, which is neither."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

import kafkasource

PATIENCE_S = 60
REGISTERING = threading.Lock()  # of the format, which each stream does again
LONG_AGO_S = 3600  # a timestamp before this is one that the case has set; later ones say only "now"


class Writes:
    """Part of `parity_run.Run`, which has these."""

    spark: Any
    kafka: Any
    format: str
    names: Mapping[str, str]
    checkpoint: Path
    fill: Callable[[str], str]
    _collect: Callable[[Any, Any], None]
    _watched: Any

    def _sink(self, step):
        """The options of the write, with the real names in them."""
        options = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "topic": "$mine", **step.options}
        return {key: self.fill(text) for key, text in options.items() if text is not None}

    def _in_this_thread(self):
        """Spark looks for the format of a write in the active session, which is one of the thread."""
        SparkSession._get_j_spark_session_class(self.spark._jvm).setActiveSession(self.spark._jsparkSession)

    def _write(self, step):
        with self._watched() as seen:
            self._in_this_thread()
            frame = self.spark.sql(self.fill(f"SELECT {step.select}")).coalesce(1)
            writer = frame.write.format(self.format).options(**self._sink(step))
            (writer if step.mode is None else writer.mode(step.mode)).save()
            seen.rows = self._written()

    def _writestream(self, step):
        with self._watched() as seen:
            self._in_this_thread()
            source = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "startingOffsets": "earliest"}
            with REGISTERING:
                if self.format == "pykafka":
                    kafkasource.register(self.spark)
                reader = self.spark.readStream.format(self.format).options(**source, subscribe=self.names["other"])
                frame = reader.load()
            if step.grouped:
                frame = frame.groupBy().count().selectExpr("CAST(count AS STRING) AS value")
            else:
                frame = frame.select("key", "value")
            writer = frame.writeStream.format(self.format).options(**self._sink(step)).outputMode(step.mode)
            query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
            try:
                assert query.awaitTermination(PATIENCE_S), f"the query did not end within {PATIENCE_S} s"
            finally:
                query.stop()
            seen.rows = self._written()

    def _sql(self, step):
        with self._watched() as seen:
            self._in_this_thread()
            its_name = self.names["mine"].replace("-", "_")  # of a view or a table: runs at a time have their own
            try:
                using = self._using(step, its_name)
                for statement in step.statements:
                    frame = self.spark.sql(statement.replace("$using", using).replace("$it", its_name))
                    if statement.startswith("SELECT *"):
                        self._collect(frame, seen)
                    else:
                        frame.collect()
                seen.rows = seen.rows or self._written()
            finally:
                self.spark.catalog.dropTempView(its_name)
                self.spark.sql(f"DROP TABLE IF EXISTS {its_name}")

    def _using(self, step, its_name):
        options = self._sink(step)
        if step.registered and self.format == "pykafka":
            kafkasource.register(self.spark, name=its_name, options=options)
            return f"USING {its_name}"
        stated = ", ".join(f"'{key}' '{text}'" for key, text in options.items())
        return f"USING {self.format} OPTIONS ({stated})"

    def _written(self):
        """All records of the case's own topics, as `Seen.rows` has them."""
        rows = []
        with closing(self.kafka._consumer(f"{self.kafka.run}-looking")) as consumer:
            topics = self.kafka._metadata().topics
            for placeholder in ("mine", "mine2"):
                topic = self.names[placeholder]
                for partition in topics[topic].partitions if topic in topics else ():
                    rows += self._in_partition(consumer, placeholder, TopicPartition(topic, partition, 0))
        return sorted(rows, key=lambda row: row[:3])

    @staticmethod
    def _in_partition(consumer, placeholder, place):
        deadline = time.monotonic() + PATIENCE_S
        _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        consumer.assign([place])
        rows = []
        while len(rows) < end:
            assert time.monotonic() < deadline, f"{len(rows)} of {end} records within {PATIENCE_S} s"
            record = consumer.poll(0.1)
            if record is not None and record.error() is None:
                _, ms = record.timestamp()
                ms = ms if ms < 1000 * (time.time() - LONG_AGO_S) else None
                found = (record.offset(), record.key(), record.value(), ms, None, record.headers())
                rows.append((placeholder, place.partition, *found))
        return rows
