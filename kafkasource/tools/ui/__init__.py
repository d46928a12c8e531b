"""`pykafka ui`: a page about a cluster. Its server answers from this machine, with the project's own client. Its paths:

    GET /                 the page: page.html with ui.css, ui.js and `web`'s common files; no data, so no token
    GET /api/cluster      brokers, and whether the server may write
    GET /api/topics       each topic with its partitions, its offsets, its health
    GET /api/topic        one topic: partitions, settings
    GET /api/groups       each group with its state, and brokers that did not answer
    GET /api/group        one group: members, lag of each partition
    GET /api/transactions the open ones, and for how long
    GET /api/records      some records of a topic: see `browsing`

With --write also, by POST: /api/produce, /api/offsets/plan, /api/offsets/set, /api/topic/create, /api/topic/delete.

app       what each path answers         topics    topics as JSON
browsing  some records, never too many   records   a record as JSON
changes   what --write allows            transactions  open transactions as JSON
parameters  what a request asks for

It reads with readers of its own, which join no group and commit nothing. What a cluster holds is hostile text: answers
are JSON, and the page's scripts write text nodes only (`require-trusted-types-for` forbids the rest).
"""
