import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenResult;

/**
 * Kafka's own client logs in. A command: an action and the path of a client.properties.
 *
 * nodes   the number of brokers that it sees
 * token   a delegation token: its id and its HMAC in base64
 *
 * The answer is that, or `error` and the class of what was thrown at the root.
 */
public class KafkaLogin {
    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            System.out.println(answer(words[0], words[1]));
        }
    }

    private static String answer(String action, String path) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(path)) {
            properties.load(file);
        }
        properties.put("default.api.timeout.ms", "30000");
        String tokens = properties.getProperty("sasl.oauthbearer.token.endpoint.url");
        if (tokens != null) {
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", tokens);
        }
        try (Admin admin = Admin.create(properties)) {
            if (action.equals("token")) {
                CreateDelegationTokenResult made = admin.createDelegationToken();
                byte[] hmac = made.delegationToken().get().hmac();
                String id = made.delegationToken().get().tokenInfo().tokenId();
                return id + " " + Base64.getEncoder().encodeToString(hmac);
            }
            return String.valueOf(admin.describeCluster().nodes().get().size());
        } catch (Exception thrown) {
            Throwable root = thrown;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            return "error " + root.getClass().getSimpleName();
        }
    }
}
