"""TLS and SASL, as far as they need no socket.

tls_options   the table                          tls_config    the options as a value
stores        truststores and keystores          tls_context   OpenSSL's context, renewed when files change
tls_stream    one connection: bytes to bytes     tls_errors    what to say where it fails
"""
