import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer of any release since 0.9 writes a record. A command: a topic and the path of a client.properties.
 *
 * The answer is the record's offset, or `error` and the class of what was thrown at the root.
 */
public class KafkaWrite {
    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            System.out.println(answer(words[0], words[1]));
        }
        System.exit(0); // old producers leave threads behind when their constructor has failed
    }

    private static String answer(String topic, String path) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(path)) {
            properties.load(file);
        }
        String tokens = properties.getProperty("sasl.oauthbearer.token.endpoint.url");
        if (tokens != null) {
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", tokens);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            ProducerRecord<byte[], byte[]> written = new ProducerRecord<>(topic, 0, null, new byte[] {1});
            return String.valueOf(producer.send(written).get(60, TimeUnit.SECONDS).offset());
        } catch (Exception thrown) {
            Throwable root = thrown;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            return "error " + root.getClass().getSimpleName();
        }
    }
}
