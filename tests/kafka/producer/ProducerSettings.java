import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Prints what Kafka's producer makes of the settings in each line (`retries=0 linger.ms=5`): its batch.size, whether it
 * is idempotent, and its delivery.timeout.ms; or `refused`.
 */
public class ProducerSettings {
    public static void main(String[] args) throws Exception {
        Method timeout = KafkaProducer.class.getDeclaredMethod(
            "configureDeliveryTimeout", ProducerConfig.class, Logger.class);
        timeout.setAccessible(true);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", "localhost:9092");
            settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            for (String setting : line.trim().split(" +")) {
                settings.put(setting.split("=")[0], setting.split("=")[1]);
            }
            System.out.println(madeOf(settings, timeout));
        }
    }

    private static String madeOf(Map<String, Object> settings, Method timeout) throws Exception {
        try {
            ProducerConfig config = new ProducerConfig(settings);
            Object timeoutMs = timeout.invoke(null, config, LoggerFactory.getLogger("producer"));
            return config.getInt("batch.size") + " " + config.getBoolean("enable.idempotence") + " " + timeoutMs;
        } catch (ConfigException refused) {
            return "refused";
        } catch (java.lang.reflect.InvocationTargetException refused) {
            return "refused";
        }
    }
}
