"""Which files of tests take longest, and how long: seconds on two cores that do nothing else, roughly.

A run on several processes gives each process a file at a time, or all that share brokers (run_rules.py). Given in this
order, longest first, the last files are short ones, and the processes end at about the same time. A file that is not
here comes after these: add it when `KAFKASOURCE_TIMES=1` says that it takes more than 20 seconds.
"""

SECONDS = {
    # with Spark
    "spark/test_exactly_once_crashes.py": 1100,  # 60 of them without make extended
    "mirror/test_mirror_command.py": 390,  # nearly all of it in make extended
    "peers/test_parity.py": 330,  # half of them without make extended
    "spark/test_every_broker.py": 60,
    "mirror/test_mirror_ends.py": 144,
    "spark/test_stream_faults.py": 110,  # 30 of them without make extended
    "spark/test_connect.py": 101,
    "spark/test_pipelines.py": 150,  # all of it in make extended
    "spark/test_recipes.py": 100,  # all of it in make extended
    "spark/test_stopped_queries.py": 70,
    "spark/test_stream.py": 70,
    "kafka/memory/test_memory_in_spark.py": 65,
    "spark/test_batch.py": 60,
    "peers/test_confluent.py": 25,
    "metrics/test_metrics_of_a_query.py": 50,
    "spark/test_examples.py": 50,
    "spark/test_filter_pushdown.py": 45,
    "spark/test_exactly_once_options.py": 45,
    "spark/test_input_partitions.py": 40,
    "mirror/test_mirror_of_brokers.py": 35,
    "mirror/test_week_of_an_operator.py": 35,  # two minutes more in make extended
    "spark/test_group_offsets.py": 27,
    "spark/test_sink_commits.py": 25,
    "spark/test_dead_letters.py": 22,  # minutes more in make extended
    "peers/test_security_parity.py": 25,  # a minute more in make extended
    "kafka/group/test_exclusive_query.py": 20,
    # without
    "sink/test_write_order.py": 190,  # with all files that share three brokers
    "testing/broker/test_secured_broker.py": 170,  # with all files that share the secured broker
    "kafka/group/test_consumer_group_on_brokers.py": 110,
    "kafka/records/test_builds.py": 45,
    "servers/test_servers.py": 380,  # all of it in make extended
    "exactly_once/test_exactly_once_on_brokers.py": 80,
    "kafka/cluster/test_transaction_facts.py": 60,
    "exactly_once/test_decision_status_on_brokers.py": 95,
    "testing/broker/test_registry.py": 60,  # all of it in make extended
    "lab/campaign/test_ending.py": 100,
    "kafka/cluster/test_client_on_old_brokers.py": 45,
    "testing/broker/test_broker.py": 80,
    "testing/broker/test_old_brokers.py": 75,
    "sink/clusters/test_fan_out_on_brokers.py": 75,
    "kafka/fetch/test_read_from_replicas.py": 55,
    "tools/cli/test_commands_on_a_broker.py": 50,
    "exactly_once/test_transactions_to_broker.py": 40,
    "kafka/producer/test_rollover_on_brokers.py": 35,
    "source/spark/test_stream_on_a_broker.py": 32,
    "kafka/producer/test_message_sets_on_a_broker.py": 32,
    "kafka/group/test_members_on_brokers.py": 30,
    "tools/cli/test_completed_names.py": 30,
    "test_run_rules.py": 25,
    "tools/cli/test_shell_blocks.py": 20,  # twice that in make extended
    "testing/broker/test_jars.py": 25,
    "sink/test_write_to_broker.py": 24,
    "kafka/records/test_kafka_records.py": 22,
    "kafka/group/test_assignors.py": 21,
    "kafka/group/test_mixed_group.py": 20,
    "source/spark/test_pushdown_on_a_broker.py": 20,
}
