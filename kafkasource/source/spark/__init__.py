"""The classes that Spark calls to read: `stream`, `batch`, `input_partition`, and the schema of the rows."""
