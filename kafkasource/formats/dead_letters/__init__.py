"""Dead letters: what `badRecords=topic:NAME` writes in place of a record or row that cannot be used.

makers   the three reasons for a dead letter, and the rows for its topic
headers  the headers in which a dead letter says where it comes from, and why

Where the words of a reason come from, and a field's place in the schema (`$.lines[].price`, from `words.Words`):

of_undecoded   `decoding.opcodes`, `json.opcodes` and `formats.rows`; `reading.batches` puts words and place into the
               column `badRecord`, and `sink.columns` calls the maker
of_rows        `encoding.opcodes`; `encoding.encode` adds the place, and `sink.columns` calls the maker
of_records     the broker's answer, else the row of its code in `errors` (`producer.unwritable`); for a limit
               `producer.accumulator`. Both set the dead letter aside (`Delivery.set_aside`) until the task's thread
               appends it

The option names the topic (`sink.schema`); `sink.task` gives it to each cluster's delivery.
"""
