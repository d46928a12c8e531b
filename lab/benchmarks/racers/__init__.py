"""Other projects that read Kafka into Arrow or move records between topics, beside this one, on the same topics."""
