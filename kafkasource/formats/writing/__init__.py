"""Keys and values that a write encodes: `valueFormat`, `keyFormat`. Resolved on the driver, used in the tasks."""
