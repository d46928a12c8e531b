import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;

/** Each line is a schema's text: answers its parsing canonical form, or `refused` and why. */
public class AvroSchemas {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                Schema schema = new Schema.Parser().parse(line);
                out.println(SchemaNormalization.toParsingForm(schema));
            } catch (Exception | StackOverflowError refused) {
                out.println("refused " + String.valueOf(refused.getMessage()).replace('\n', ' '));
            }
        }
    }
}
