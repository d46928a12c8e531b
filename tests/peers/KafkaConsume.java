import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own consumer reads one partition. A command: bootstrap servers, topic, partition, and the offsets [start, end).
 *
 * The answer has a word for each record: OFFSET,TIMESTAMP,TIMESTAMP_TYPE,KEY,VALUE,HEADER_KEY:HEADER_VALUE,... in hex,
 * "-" for null. Where the consumer throws, the last word is "!" and the class of what it threw at the root.
 */
public class KafkaConsume {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            TopicPartition partition = new TopicPartition(words[1], Integer.parseInt(words[2]));
            System.out.println(answer(words[0], partition, Long.parseLong(words[3]), Long.parseLong(words[4])));
        }
    }

    private static String answer(String servers, TopicPartition partition, long start, long end) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("auto.offset.reset", "none");
        properties.put("fetch.max.wait.ms", "10"); // else each end of a partition takes half a second
        List<String> rows = new ArrayList<>();
        ByteArrayDeserializer asBytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, asBytes, asBytes)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, start);
            while (consumer.position(partition) < end)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10)))
                    rows.add(row(record));
        } catch (KafkaException thrown) {
            Throwable root = thrown;
            while (root.getCause() != null)
                root = root.getCause();
            rows.add("!" + root.getClass().getSimpleName());
        }
        return String.join(" ", rows);
    }

    private static String row(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder row = new StringBuilder();
        row.append(record.offset()).append(',').append(record.timestamp());
        row.append(',').append(record.timestampType().id);
        row.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
        for (Header header : record.headers())
            row.append(',').append(hex(header.key().getBytes(StandardCharsets.UTF_8))).append(':').append(hex(header.value()));
        return row.toString();
    }

    private static String hex(byte[] data) {
        return data == null ? "-" : HexFormat.of().formatHex(data);
    }
}
