"""The part of exactly once in a task: its transactions, and its report to the driver."""
