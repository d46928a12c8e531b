import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Encodes messages with Kafka's own classes: each line in is "name version json", each line out the bytes in hex. */
public class KafkaClasses {
    public static void main(String[] args) throws Exception {
        var mapper = new ObjectMapper();
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            var words = line.split(" ", 3);
            short version = Short.parseShort(words[1]);
            var converter = Class.forName("org.apache.kafka.common.message." + words[0] + "DataJsonConverter");
            var read = converter.getMethod("read", JsonNode.class, short.class);
            var message = (Message) read.invoke(null, mapper.readTree(words[2]), version);
            var cache = new ObjectSerializationCache();
            var buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            System.out.println(HexFormat.of().formatHex(buffer.array(), 0, buffer.position()));
        }
    }
}
