"""The table at the end of a campaign: faults by kind, records, findings."""

from __future__ import annotations

import json
from collections.abc import Iterator

from campaign.campaign import Result
from campaign.faults import TABLE


def lines(result: Result) -> Iterator[str]:
    yield f"seed {result.seed}, Kafka {result.version}, {result.minutes:g} minutes"
    yield ""
    for kind in TABLE:
        yield f"  {result.faults[kind.name]:6}  {kind.name}"
    yield f"  {result.faults.total():6}  faults"
    yield ""
    for log, count in result.records.items():
        yield f"  {count:6}  records in {log}"
    yield ""
    for rule, count in result.report.counts.items():
        yield f"  {count:6}  {rule}"
    yield f"  {result.report.total:6}  findings"
    for rule, findings in result.report.findings.items():
        yield ""
        for finding in findings[:5]:
            yield f"{rule}: {finding.log}: {finding.text}"


def as_json(result: Result) -> str:
    """What `campaign.counts` adds to docs/campaign.md."""
    return json.dumps(
        {
            "seed": result.seed,
            "version": result.version,
            "minutes": result.minutes,
            "faults": dict(result.faults),
            "records": sum(result.records.values()),
            "findings": {rule: count for rule, count in result.report.counts.items() if count},
        }
    )
