"""The table at the end of a campaign: faults by kind, records, findings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from lab.campaign.campaign import Result
from lab.campaign.faults import TABLE, Kind


def lines(result: Result, table: Sequence[Kind] = TABLE) -> Iterator[str]:
    yield f"seed {result.seed}, Kafka {result.version}, {result.minutes:g} minutes"
    yield ""
    for kind in table:
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


def as_json(results: Sequence[Result], shape: str) -> str:
    """What `lab.campaign.counts` adds to docs/campaign.md: all of them as one run, with the seed of the first."""
    findings = sum((Counter(result.report.counts) for result in results), Counter[str]())
    return json.dumps(
        {
            "seed": results[0].seed,
            "shape": shape,
            "version": ", ".join(dict.fromkeys(result.version for result in results)),
            "minutes": sum(result.minutes for result in results),
            "faults": dict(sum((result.faults for result in results), Counter[str]())),
            "records": sum(sum(result.records.values()) for result in results),
            "findings": {rule: count for rule, count in findings.items() if count},
        }
    )
