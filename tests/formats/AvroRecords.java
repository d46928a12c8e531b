import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/** Each line is a writer's schema, a reader's and a record, in base64: answers the value as JSON, or `error` and why. */
public class AvroRecords {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                Schema writer = new Schema.Parser().parse(text(words[0]));
                Schema reader = new Schema.Parser().parse(text(words[1]));
                BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(Base64.getDecoder().decode(words[2]), null);
                Object value = new GenericDatumReader<Object>(writer, reader).read(null, decoder);
                answer = decoder.isEnd() ? json(value) : "error bytes are left";
            } catch (Exception | StackOverflowError error) {
                answer = "error " + String.valueOf(error).replace('\n', ' ');
            }
            out.println(answer);
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            return String.valueOf(value);
        }
        if (value instanceof Float || value instanceof Double) {
            double wide = ((Number) value).doubleValue();
            return quoted("d:" + Long.toHexString(Double.doubleToLongBits(wide)));
        }
        if (value instanceof ByteBuffer) {
            ByteBuffer bytes = ((ByteBuffer) value).duplicate();
            byte[] copy = new byte[bytes.remaining()];
            bytes.get(copy);
            return hex(copy);
        }
        if (value instanceof GenericFixed) {
            return hex(((GenericFixed) value).bytes());
        }
        List<String> parts = new ArrayList<>();
        if (value instanceof IndexedRecord) {
            IndexedRecord record = (IndexedRecord) value;
            for (Schema.Field field : record.getSchema().getFields()) {
                parts.add(quoted(field.name()) + ":" + json(record.get(field.pos())));
            }
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof Map) {
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                parts.add(quoted("s:" + entry.getKey()) + ":" + json(entry.getValue()));
            }
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof Collection) {
            for (Object item : (Collection<?>) value) {
                parts.add(json(item));
            }
            return "[" + String.join(",", parts) + "]";
        }
        return quoted("s:" + value); // a string or a symbol
    }

    private static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder("x:");
        for (byte each : bytes) {
            digits.append(String.format("%02x", each));
        }
        return quoted(digits.toString());
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each < 0x20 || each > 0x7e || each == '"' || each == '\\') {
                quoted.append(String.format("\\u%04x", (int) each));
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }
}
