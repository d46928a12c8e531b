"""The HTTP server of the metrics server and of `pykafka ui`. Standard library only.

serving      the class of both: listens, answers, closes; common.css and common.js are what their pages share
server       connections, a thread for each
handler      one request and its response
access       host names and the token that requests need
certificate  TLS
"""
