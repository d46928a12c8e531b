"""The driver's part of exactly once: begin, decide, commit, abort. Runs where Spark plans and commits."""
