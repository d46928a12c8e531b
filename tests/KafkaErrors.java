import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints Kafka's error table: code, name, retriable, refresh metadata first. Run as `java -cp JARS KafkaErrors.java`. */
public class KafkaErrors {
    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            Throwable thrown = error.exception();
            System.out.println(String.join("\t", String.valueOf(error.code()), error.name(),
                String.valueOf(thrown instanceof RetriableException),
                String.valueOf(thrown instanceof InvalidMetadataException)));
        }
    }
}
