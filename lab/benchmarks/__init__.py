"""`python -m lab.benchmarks`: this connector against its peers, in one run. What and how: lab/benchmarks/README.md."""
