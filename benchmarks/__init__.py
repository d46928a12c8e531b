"""`python -m benchmarks`: this connector against its peers, in one run. What and how: benchmarks/README.md."""
