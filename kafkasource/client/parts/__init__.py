"""The parts of a `Cluster`, one for each subject of which a cluster is asked."""
