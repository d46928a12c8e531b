"""The steps of the driver's batch: begin, commit, abort. `moves` takes them by the table `states.BATCH`."""
