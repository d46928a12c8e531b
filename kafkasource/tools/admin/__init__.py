"""What operators ask about a cluster, for the command line and the page of `pykafka ui` alike.

topics     which exist, their health, their bounds      lag        how far groups have read
positions  places in logs, as people write them         groups     their members, their state
json_records  records that people write as JSON
"""
