"""The connections to the brokers of a cluster. `network_client.NetworkClient` owns them all; one thread runs its loop.

connection  the protocol on one connection, without a socket     link, opening, attempt  from an address to a connection
metadata    what brokers say of the cluster; no socket           sockets, tls_transport, connector, resolver  the system
pending     an answer that is not there yet                      log_view  is this still the same log?
"""
