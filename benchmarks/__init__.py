"""`python -m benchmarks [--quick]`: this connector, Spark's JVM connector and ready-made Arrow batches, in one run."""
