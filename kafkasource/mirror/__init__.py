"""Mirrors of Kafka clusters as one Spark job: what `pykafka mirror FILE` runs.

    a file ── toml_file | mirror_maker ──> Plan (clusters, flows) ── routes ──> a Route for each source cluster

    Route      one streaming query: reads what any of its flows wants, once; writes to all of its targets (`clusters`)
    topics     threads for each route: make, grow and configure the targets' topics like the source's, without
               settings that a target refuses (refused_settings) or that came in a circle (carried_settings)
    job        the queries; checkpoint_lock: one mirror at a time on a checkpoint

Each target also keeps a map of offsets, which the sink writes: `kafkasource.mirror.offset_map`.
Everything up to the routes is pure. Nothing here is needed to read or write with the format itself.
"""
