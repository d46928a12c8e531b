"""The HTTP server of the metrics server and of `pykafka ui`. Standard library only.

site         listens, answers, closes
server       connections, a thread for each
handler      one request and its answer
access       host names and the token that requests need
certificate  TLS
page         the pages' files: common.css, common.js
"""
