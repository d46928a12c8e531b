"""SASL: its options, and its mechanisms, each a state machine without socket or clock.

options        the table; vendors' defaults          config   the options as values: in a plan, and resolved
oauth_config   which source of tokens they mean      jaas     `sasl.jaas.config`; `oauth_jaas`: vendors' options in it
java_class     which classes of Java's are meant
mechanism      how a machine is driven; `plain`, `scram`, `oauthbearer` and `gssapi` are the machines
"""
