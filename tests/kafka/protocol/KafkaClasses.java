import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Encodes messages with Kafka's own classes: each line in is "name version json", each line out the whole frame in hex,
 * with the correlation id and client id of this program.
 */
public class KafkaClasses {
    static final int CORRELATION_ID = 7;
    static final String CLIENT_ID = "klient \u00e5";

    public static void main(String[] args) throws Exception {
        var mapper = new ObjectMapper();
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            var words = line.split(" ", 3);
            short version = Short.parseShort(words[1]);
            var converter = Class.forName("org.apache.kafka.common.message." + words[0] + "DataJsonConverter");
            var read = converter.getMethod("read", JsonNode.class, short.class);
            var message = (Message) read.invoke(null, mapper.readTree(words[2]), version);
            var out = new ByteArrayOutputStream();
            out.write(written(header(message, words[0], version), headerVersion(message, words[0], version)));
            out.write(written(message, version));
            var whole = ByteBuffer.allocate(4 + out.size()).putInt(out.size()).put(out.toByteArray());
            System.out.println(HexFormat.of().formatHex(whole.array()));
        }
    }

    private static byte[] written(Message message, short version) {
        var cache = new ObjectSerializationCache();
        var buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Message header(Message message, String name, short version) {
        if (!name.endsWith("Request")) return new ResponseHeaderData().setCorrelationId(CORRELATION_ID);
        return new RequestHeaderData().setRequestApiKey(((ApiMessage) message).apiKey()).setRequestApiVersion(version)
            .setCorrelationId(CORRELATION_ID).setClientId(CLIENT_ID);
    }

    private static short headerVersion(Message message, String name, short version) {
        var type = ApiMessageType.fromApiKey(((ApiMessage) message).apiKey());
        return name.endsWith("Request") ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version);
    }
}
