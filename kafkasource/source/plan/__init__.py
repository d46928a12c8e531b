"""Plans which offsets a micro-batch, or a batch read, takes from each log. `planner` decides."""
