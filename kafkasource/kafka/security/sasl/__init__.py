"""SASL: its options, and its mechanisms, each a state machine without socket or clock.

mechanisms     the table of mechanisms: the options, JAAS module and machine of each
options        the table of all options; `oauth_options`: those of OAUTHBEARER; vendors' defaults
config         the options as plans hold them; `credentials`: their values, as an authentication needs them
oauth_config   which source of tokens they mean      jaas     `sasl.jaas.config`; `oauth_jaas`: vendors' options in it
java_class     which classes of Java's are meant
mechanism      how a machine is driven; `plain`, `scram`, `oauthbearer` and `gssapi` are the machines
"""
