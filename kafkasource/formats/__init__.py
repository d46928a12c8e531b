"""Typed rows: keys and values in a schema's format to Arrow columns, and back.

avro, protobuf, json  read schemas and compile them into programs of integers; no registry, no options
decoding, encoding    run such programs over a column of records: a compiled kernel each
reading               the formats of a read: which schema, which columns, what becomes of a bad record
writing               the formats of a write, and rows that the writer's schema does not take
registry              schema registries

A newcomer starts with `reading.formats` or `writing.formats`. Reading binary rows loads nothing of this.
"""
