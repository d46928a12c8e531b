"""What our HTTP servers share: the metrics server and `pykafka ui`. Standard library only.

site     listens, answers, closes       access       which requests it accepts
handler  one request, its answer        certificate  TLS
server   connections, a thread for each common.css, common.js   how our pages look, and what their scripts share
"""
