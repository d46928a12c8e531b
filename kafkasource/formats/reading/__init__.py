"""Keys and values in a format: what the options ask for (`formats`), the schemas of readers and writers (`schemas`),
and rows of a task with typed columns (`batches`)."""
