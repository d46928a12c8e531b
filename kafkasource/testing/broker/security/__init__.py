"""The security of a test cluster: its settings, certificates, tokens and ACLs, for its brokers and its clients."""
