"""A job whose options hold marker secrets, as text and as references; some of its reads and writes fail.

    secrets_app.py FOLDER     FOLDER/given.json says what to do; the session lasts until FOLDER/end is there

It prints whatever Spark and this package print of options: plans, reprs, errors. `left_behind.py` starts it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

import kafkasource


def show(what, value):
    print(f"{what}: {value!r} {value}", flush=True)


def run(spark, given, checkpoint):
    """The job's parts by name."""
    kafka, topics = given["kafka"], given["topics"]
    created = {"createTopic": "partitions=1"}  # the driver logs in; without it only tasks do

    def write(options, topic, **more):
        rows = spark.range(10).selectExpr("CONCAT('v', id) AS value")
        options = {**options, "topic": topic, **more}
        rows.write.format("pykafka").options(**options).mode("append").save()

    def read(options, topic):
        frame = spark.read.format("pykafka").options(**options, subscribe=topic).load()
        frame.explain(True)
        show("frame", frame)
        show("rows", frame.count())

    def stream():
        source = spark.readStream.format("pykafka").options(**kafka["dir"], startingOffsets="earliest")
        frame = source.option("subscribe", topics["text"]).load().select("value")
        frame.explain(True)
        sink = frame.writeStream.format("pykafka").options(**kafka["file"], topic=topics["copy"])
        sink = sink.option("createTopic", "partitions=1")
        query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        query.explain(True)
        show("progress", query.lastProgress)
        show("query", query)

    def clusters():
        own = {f"clusters.b.{name}": text for name, text in kafka["env"].items()}
        write(own | {"clusters": json.dumps({"a": kafka["text"]})}, topics["copy"], **created)

    def view():
        stated = ", ".join(f"'{name}' '{text}'" for name, text in kafka["key"].items())
        spark.sql(f"CREATE TEMPORARY VIEW v USING pykafka OPTIONS ({stated}, 'subscribe' '{topics['text']}')")
        spark.sql("EXPLAIN EXTENDED SELECT * FROM v").show(100, False)
        show("rows of the view", spark.sql("SELECT value FROM v").count())

    yield "write", lambda: write(kafka["text"], topics["text"], **created)
    yield "read", lambda: read(kafka["env"], topics["text"])
    yield "stream", stream
    yield "clusters", clusters
    yield "view", view
    yield "refused in planning", lambda: read(kafka["wrong"], topics["text"])
    yield "refused in tasks", lambda: write(kafka["turned"], topics["text"])
    yield "bad JSON", lambda: write({"clusters": json.dumps({"a": kafka["text"]}) + "}"}, topics["text"])
    yield "unknown option", lambda: write({**kafka["text"], "kafka.sasl.pasword": given["mistyped"]}, topics["text"])


def main(folder):
    given = json.loads((folder / "given.json").read_text())
    logging.basicConfig(level=logging.DEBUG, filename=folder / "left" / "driver-python.log")
    if given["connect"]:
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        spark = SparkSession.builder.getOrCreate()
    kafkasource.register(spark)
    outcomes = {}
    with kafkasource.serve_metrics(spark) as served:
        (folder / "metrics").write_text(served.url)
        for name, part in run(spark, given, str(folder / "left" / "checkpoint")):
            try:
                part()
                outcomes[name] = "done"
            except Exception as error:
                traceback.print_exc()
                outcomes[name] = str(error)
            print(f"{name}: {outcomes[name][:100]}", flush=True)
        (folder / "outcomes.new").write_text(json.dumps(outcomes))
        (folder / "outcomes.new").rename(folder / "outcomes")
        while not (folder / "end").exists():
            time.sleep(0.1)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
