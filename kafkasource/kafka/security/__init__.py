"""TLS and SASL: they prove the broker to the client and the client to the broker. Only `endpoint` opens sockets.

Of `kafka` it imports `process` alone. A newcomer starts with `config`; `option` has the row of all tables of options.

config     how a client's connections are secured: the options of both, as plans carry them
tls/       the table of options, stores of certificates, OpenSSL's context, one connection: bytes to bytes
sasl/      the table of options, JAAS, a state machine for each mechanism
tokens/    OAuth tokens by source; `cache` renews them
login      what a process's connections share: `login_of(options, host).mechanism(broker)`
refusals   passwords that brokers refused: all connections of a process wait before they try one again
endpoint   HTTP to a token endpoint
"""
