import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import org.apache.kafka.common.protocol.ProtoUtils;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Reads frames with the schemas of Kafka 0.8 and 0.9, and writes them again. Each line in is "request|response key
 * version hex", a frame without its length; each line out the values of header and body as JSON arrays, without names,
 * and the hex of what these classes write for them. "versions key" asks for the newest version of an API.
 */
public class OldKafkaClasses {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            var words = line.split(" ");
            int key = Integer.parseInt(words[1]);
            if (words[0].equals("versions")) {
                System.out.println(ProtoUtils.latestVersion(key));
                continue;
            }
            int version = Integer.parseInt(words[2]);
            var frame = ByteBuffer.wrap(bytes(words[3]));
            var again = ByteBuffer.allocate(frame.capacity());
            String header;
            Schema schema;
            if (words[0].equals("request")) {
                var parsed = RequestHeader.parse(frame);
                header = "[" + parsed.apiKey() + "," + parsed.apiVersion() + "," + parsed.correlationId() + ","
                    + json(parsed.clientId()) + "]";
                parsed.writeTo(again);
                schema = ProtoUtils.requestSchema(key, version);
            } else {
                var parsed = ResponseHeader.parse(frame);
                header = "[" + parsed.correlationId() + "]";
                parsed.writeTo(again);
                schema = ProtoUtils.responseSchema(key, version);
            }
            var body = (Struct) schema.read(frame);
            if (frame.hasRemaining()) throw new IllegalStateException(frame.remaining() + " bytes left of " + line);
            body.writeTo(again);
            System.out.println(header + " " + json(values(body).toArray()) + " " + hex(again.array(), again.position()));
        }
    }

    private static String json(Object value) {
        if (value instanceof Struct struct) {
            var values = values(struct); // what an array holds may be a struct of one value, or that value
            return values.size() == 1 ? json(values.get(0)) : json(values.toArray());
        }
        if (value instanceof Object[] values) {
            var texts = new ArrayList<String>();
            for (Object each : values) texts.add(json(each));
            return "[" + String.join(",", texts) + "]";
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] copy = new byte[buffer.remaining()];
            buffer.duplicate().get(copy);
            return '"' + hex(copy, copy.length) + '"';
        }
        return value instanceof String ? '"' + (String) value + '"' : String.valueOf(value);
    }

    /** A struct that is a field, as FindCoordinator's broker was, brings its values among the others. */
    private static ArrayList<Object> values(Struct struct) {
        var values = new ArrayList<Object>();
        for (Field field : struct.schema().fields()) {
            if (struct.get(field) instanceof Struct inner) values.addAll(values(inner));
            else values.add(struct.get(field));
        }
        return values;
    }

    private static byte[] bytes(String hex) {
        return java.util.HexFormat.of().parseHex(hex);
    }

    private static String hex(byte[] bytes, int length) {
        return java.util.HexFormat.of().formatHex(bytes, 0, length);
    }
}
