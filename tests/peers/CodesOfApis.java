import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Does what each command says with a client of its own: "SERVERS JOB CLIENT-ID". Answers in the order of the commands:
 * "on", or the exception that ended the job. No job ends by a timeout, so the limits only bound a broken run.
 */
public class CodesOfApis {
    static final TopicPartition T0 = new TopicPartition("t", 0);

    public static void main(String[] arguments) throws Exception {
        ExecutorService workers = Executors.newFixedThreadPool(8);
        List<Future<String>> answers = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            answers.add(workers.submit(() -> outcome(words[0], words[1], words[2])));
        }
        for (Future<String> answer : answers) {
            System.out.println(answer.get());
        }
        workers.shutdownNow();
        System.exit(0);
    }

    static String outcome(String servers, String job, String name) {
        try {
            if (job.equals("write")) {
                write(servers, name);
            } else if (job.equals("transaction")) {
                transaction(servers, name);
            } else {
                read(servers, job, name);
            }
            return "on";
        } catch (Throwable error) {
            Throwable cause = error instanceof java.util.concurrent.ExecutionException ? error.getCause() : error;
            return cause.getClass().getSimpleName();
        }
    }

    static Map<String, Object> settings(String servers, String name) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", servers);
        settings.put("client.id", name);
        settings.put("retry.backoff.ms", 5);
        settings.put("retry.backoff.max.ms", 20);
        settings.put("reconnect.backoff.ms", 5);
        settings.put("request.timeout.ms", 10_000);
        settings.put("enable.metrics.push", false);
        return settings;
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        settings.put("max.block.ms", 30_000);
        settings.put("delivery.timeout.ms", 30_000);
        settings.put("linger.ms", 0);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static void write(String servers, String name) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(settings(servers, name));
        try {
            producer.send(new ProducerRecord<>("t", 0, null, new byte[10])).get();
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    static void transaction(String servers, String name) throws Exception {
        Map<String, Object> settings = settings(servers, name);
        settings.put("transactional.id", name);
        KafkaProducer<byte[], byte[]> producer = producer(settings);
        try {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("t", 0, null, new byte[10])).get();
            producer.sendOffsetsToTransaction(Map.of(T0, new OffsetAndMetadata(5)), new ConsumerGroupMetadata(name));
            producer.commitTransaction();
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    static void read(String servers, String job, String name) throws Exception {
        Map<String, Object> settings = settings(servers, name);
        settings.put("group.id", name);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        settings.put("default.api.timeout.ms", 30_000);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            if (job.equals("list")) {
                consumer.beginningOffsets(Set.of(T0));
            } else if (job.equals("commit")) {
                consumer.commitSync(Map.of(T0, new OffsetAndMetadata(5)));
            } else if (job.equals("committed")) {
                consumer.committed(Set.of(T0));
            } else {
                consumer.assign(Set.of(T0));
                consumer.seek(T0, 0);
                for (int i = 0; i < 30; i++) {
                    if (!consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                        return;
                    }
                }
                throw new IllegalStateException("no record");
            }
        } finally {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
        }
    }
}
