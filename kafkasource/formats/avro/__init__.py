"""Avro: schema text to values (`parse`), the columns of a schema (`arrow_types`), records to columns (`decode`)."""
