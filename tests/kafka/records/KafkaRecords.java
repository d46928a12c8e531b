import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Kafka's own record classes, one command a line of standard input, one line of answer each.
 *
 *   write MAGIC CODEC BASE_OFFSET LOG_APPEND_TIME|-1 RECORD...   the batch, or message set v0 or v1, in hex
 *   cleaned BASE_OFFSET DELETE_HORIZON RECORD...           the batch as the log cleaner writes it, in hex
 *   marker abort|commit OFFSET PRODUCER_ID                 the control batch in hex
 *   read HEX                                               OFFSET,RECORD ... of all batches, after their CRC was checked
 *   types HEX                                              the id of each record's timestampType
 *   bound RECORD                                           what the producer compares with max.request.size
 *   partition COUNT HEX                                    the partition that the producer sends this key to
 *
 * A RECORD is TIMESTAMP,KEY,VALUE,HEADER_KEY:HEADER_VALUE,... in hex, "-" for null.
 */
public class KafkaRecords {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "write" -> write(words);
                case "cleaned" -> cleaned(words);
                case "marker" -> marker(words);
                case "read" -> read(words[1]);
                case "types" -> types(words[1]);
                case "bound" -> bound(words[1].split(",", -1));
                default -> "" + BuiltInPartitioner.partitionForKey(bytes(words[2]), Integer.parseInt(words[1]));
            });
        }
    }

    static String write(String[] words) {
        long appendTime = Long.parseLong(words[4]);
        byte magic = Byte.parseByte(words[1]);
        TimestampType type = appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 20), magic, compression(words[2]),
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : type, Long.parseLong(words[3]), appendTime);
        return written(builder, words, 5);
    }

    static String cleaned(String[] words) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 20), (byte) 2, Compression.NONE, TimestampType.CREATE_TIME,
            Long.parseLong(words[1]), -1, -1, (short) -1, -1, false, false, -1, 1 << 20, Long.parseLong(words[2]));
        return written(builder, words, 3);
    }

    static String written(MemoryRecordsBuilder builder, String[] words, int first) {
        for (int i = first; i < words.length; i++) {
            String[] cells = words[i].split(",", -1);
            builder.append(new SimpleRecord(Long.parseLong(cells[0]), bytes(cells[1]), bytes(cells[2]), headers(cells)));
        }
        return hex(builder.build().buffer());
    }

    static Header[] headers(String[] cells) {
        Header[] headers = new Header[cells.length - 3];
        for (int j = 0; j < headers.length; j++) {
            String[] pair = cells[j + 3].split(":", -1);
            headers[j] = new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1]));
        }
        return headers;
    }

    static String bound(String[] cells) {
        return "" + AbstractRecords.estimateSizeInBytesUpperBound(
            (byte) 2, CompressionType.NONE, bytes(cells[1]), bytes(cells[2]), headers(cells));
    }

    static Compression compression(String codec) {
        return switch (codec) {
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> Compression.NONE;
        };
    }

    static String marker(String[] words) {
        ControlRecordType type = words[1].equals("abort") ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        return hex(MemoryRecords.withEndTransactionMarker(
            Long.parseLong(words[2]), 0L, 0, Long.parseLong(words[3]), (short) 0, new EndTransactionMarker(type, 0)).buffer());
    }

    static String read(String data) {
        List<String> rows = new ArrayList<>();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(data))).batches()) {
            batch.ensureValid();
            for (org.apache.kafka.common.record.internal.Record record : batch) {
                StringBuilder row = new StringBuilder();
                row.append(record.offset()).append(',').append(record.timestamp());
                row.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers()) {
                    row.append(',').append(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))));
                    row.append(':').append(header.value() == null ? "-" : hex(ByteBuffer.wrap(header.value())));
                }
                rows.add(row.toString());
            }
        }
        return String.join(" ", rows);
    }

    static String types(String data) {
        List<String> ids = new ArrayList<>();
        for (org.apache.kafka.common.record.internal.Record record : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(data))).records())
            for (TimestampType type : TimestampType.values())
                if (record.hasTimestampType(type))
                    ids.add("" + type.id);
        return String.join(" ", ids);
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? null : HexFormat.of().parseHex(text);
    }

    static String hex(ByteBuffer data) {
        if (data == null)
            return "-";
        byte[] copy = new byte[data.remaining()];
        data.duplicate().get(copy);
        return HexFormat.of().formatHex(copy);
    }
}
