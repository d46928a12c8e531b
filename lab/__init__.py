"""Measures the project; not shipped: `campaign` looks for lost and doubled rows under faults, `benchmarks` times.

Nothing in `kafkasource` imports it. A newcomer starts with docs/campaign.md and lab/benchmarks/README.md. The reports
are in lab/benchmarks/results.
"""
