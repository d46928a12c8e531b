"""Progress as Spark's JSON has it."""

import json
from datetime import datetime, timezone

from kafkasource.metrics.lag import oldest_to_text


def progress(
    batch_id,
    began_s,
    end,
    latest,
    *,
    rows=0,
    rates=(0.0, 0.0),
    name="orders",
    run="run-1",
    query="query-1",
    took_ms=500,
    oldest=None,
):
    """`end`, `latest`: offsets of topic `t` by partition; `oldest`: as `lag.oldest_to_text` takes it."""

    def offset(partitions, mark="@kafkasource:1:ids"):
        return json.dumps({"t": {str(number): at for number, at in partitions.items()}, mark: {}})

    latest = offset(latest) if oldest is None else offset(latest, oldest_to_text(oldest))
    return {
        "id": query,
        "runId": run,
        "name": name,
        "timestamp": datetime.fromtimestamp(began_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "batchId": batch_id,
        "batchDuration": took_ms,
        "numInputRows": rows,
        "inputRowsPerSecond": rates[0],
        "processedRowsPerSecond": rates[1],
        "durationMs": {"addBatch": took_ms - 100, "triggerExecution": took_ms} if rows else {"triggerExecution": 3},
        "sources": [{"description": "d", "startOffset": None, "endOffset": offset(end), "latestOffset": latest}],
        "sink": {"description": "s", "numOutputRows": -1},
    }
