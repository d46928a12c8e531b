"""TLS and SASL: who a connection talks to, and who it is. No socket, but for `endpoint`'s to token endpoints.

tls_options    the table                          tls_config    the options as a value
stores         truststores and keystores          tls_context   OpenSSL's context, renewed when files change
tls_stream     one connection: bytes to bytes     tls_errors    what to say where it fails

sasl_options   the table; vendors' defaults       sasl_config   the options as values: in a plan, and resolved
oauth_config   which source of tokens they mean   jaas          `sasl.jaas.config`
sasl/          a state machine each mechanism     tokens/       OAuth tokens by source; the keeper renews them
login          what a process's connections share: `login_of(options, host).mechanism(broker)`
endpoint       HTTP to a token endpoint
"""
