"""Typed rows: records in a schema's own format (Avro) to Arrow columns. No registry, options or Spark here.

`avro` reads schemas and compiles a (writer, reader) pair into a program of integers; `kernel`, compiled, runs such
programs over a column of records.
"""
