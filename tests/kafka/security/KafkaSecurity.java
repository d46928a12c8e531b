// Asks Kafka's own security classes. One command a line: its words are base64, answers are base64 or `!` and an error's class.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.config.provider.DirectoryConfigProvider;
import org.apache.kafka.common.config.provider.EnvVarConfigProvider;
import org.apache.kafka.common.config.provider.FileConfigProvider;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.plain.PlainAuthenticateCallback;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCredentialCallback;

public class KafkaSecurity {
    static SaslServer server;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            List<String> texts = new ArrayList<>();
            for (int i = 1; i < words.length; i++)
                texts.add(new String(bytes(words[i]), StandardCharsets.UTF_8));
            String answer;
            try {
                answer = words[0].equals("respond") ? respond(bytes(words[1])) : answer(words[0], texts);
            } catch (Throwable e) {
                answer = "!" + e.getClass().getSimpleName();
            }
            out.println(answer);
        }
    }

    static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word.substring(1));
    }

    static String word(byte[] data) {
        return "=" + Base64.getEncoder().encodeToString(data);
    }

    static String word(String text) {
        return word(text.getBytes(StandardCharsets.UTF_8));
    }

    static String answer(String command, List<String> texts) throws Exception {
        switch (command) {
            case "properties": return properties(texts.get(0));
            case "resolve": return resolve(texts);
            case "trim": return trim(texts.get(0));
            case "jaas": return jaas(texts.get(0));
            case "plain": return plain(texts.get(0), texts.get(1));
            case "scram": return scram(texts);
            case "oauthbearer": return oauthbearer(texts.get(0));
            default: throw new IllegalArgumentException(command);
        }
    }

    static String pairs(Map<String, String> map) {
        return Stream.concat(Stream.of("ok"), new TreeMap<>(map).entrySet().stream()
            .flatMap(e -> Stream.of(word(e.getKey()), word(e.getValue())))).collect(Collectors.joining(" "));
    }

    static String properties(String text) throws Exception {
        Properties found = new Properties();
        found.load(new StringReader(text));
        Map<String, String> map = new HashMap<>();
        found.forEach((key, value) -> map.put((String) key, (String) value));
        return pairs(map);
    }

    // The text, then pattern of variables and allowed paths ("": none), then names and values of parameters.
    static String resolve(List<String> texts) {
        Map<String, ConfigProvider> providers = new HashMap<>();
        EnvVarConfigProvider env = new EnvVarConfigProvider(Map.of("USER_A", "alice", "USER_B", "b${env:USER_A}", "X.y", "", "C", "p\\q"));
        env.configure(texts.get(1).isEmpty() ? Map.of() : Map.of("allowlist.pattern", texts.get(1)));
        providers.put("env", env);
        FileConfigProvider file = new FileConfigProvider();
        DirectoryConfigProvider dir = new DirectoryConfigProvider();
        Map<String, String> allowed = texts.get(2).isEmpty() ? Map.of() : Map.of("allowed.paths", texts.get(2));
        file.configure(allowed);
        dir.configure(allowed);
        providers.put("file", file);
        providers.put("dir", dir);
        Map<String, String> config = new HashMap<>();
        config.put("it", texts.get(0));
        return word(new ConfigTransformer(providers).transform(config).data().get("it"));
    }

    static String trim(String text) {
        String secret = ((Password) ConfigDef.parseType("it", text, ConfigDef.Type.PASSWORD)).value();
        String plain = (String) ConfigDef.parseType("it", text, ConfigDef.Type.STRING);
        if (!secret.equals(plain))
            throw new IllegalStateException();
        return word(secret);
    }

    static String jaas(String text) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.jaas.config", new Password(text));
        List<AppConfigurationEntry> entries = JaasContext.loadClientContext(configs).configurationEntries();
        AppConfigurationEntry entry = entries.get(0);
        Map<String, String> found = new HashMap<>();
        entry.getOptions().forEach((key, value) -> found.put(String.valueOf(key), (String) value));
        return word(entry.getLoginModuleName()) + " " + pairs(found);
    }

    static String respond(byte[] response) throws Exception {
        byte[] challenge = server.evaluateResponse(response);
        return (server.isComplete() ? "done " + word(server.getAuthorizationID()) : "more") + " "
            + word(challenge == null ? new byte[0] : challenge);
    }

    static String plain(String user, String password) {
        server = new PlainSaslServer(callbacks -> {
            String name = null;
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback)
                    name = ((NameCallback) callback).getDefaultName();
                else
                    ((PlainAuthenticateCallback) callback).authenticated(
                        user.equals(name) && password.equals(new String(((PlainAuthenticateCallback) callback).password())));
            }
        });
        return "ok";
    }

    // Mechanism, user, password, iterations, owner of the delegation token ("": no token).
    static String scram(List<String> texts) throws Exception {
        ScramMechanism mechanism = ScramMechanism.forMechanismName(texts.get(0));
        ScramCredential credential = new ScramFormatter(mechanism).generateCredential(texts.get(2), Integer.parseInt(texts.get(3)));
        CallbackHandler handler = callbacks -> {
            String name = null;
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback)
                    name = ((NameCallback) callback).getDefaultName();
                else if (callback instanceof DelegationTokenCredentialCallback && !texts.get(4).isEmpty()) {
                    DelegationTokenCredentialCallback token = (DelegationTokenCredentialCallback) callback;
                    token.tokenOwner(texts.get(4));
                    if (texts.get(1).equals(name)) token.scramCredential(credential);
                } else if (callback instanceof ScramCredentialCallback && texts.get(4).isEmpty()) {
                    if (texts.get(1).equals(name)) ((ScramCredentialCallback) callback).scramCredential(credential);
                }
            }
        };
        server = new ScramSaslServer(mechanism, Map.of(), handler);
        return "ok";
    }

    static String oauthbearer(String token) {
        CallbackHandler validate = callbacks -> {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerExtensionsValidatorCallback) {
                    OAuthBearerExtensionsValidatorCallback extensions = (OAuthBearerExtensionsValidatorCallback) callback;
                    extensions.inputExtensions().map().keySet().forEach(extensions::valid);
                    continue;
                }
                OAuthBearerValidatorCallback it = (OAuthBearerValidatorCallback) callback;
                if (it.tokenValue().equals(token))
                    it.token(new OAuthBearerToken() {
                        public String value() { return token; }
                        public java.util.Set<String> scope() { return java.util.Set.of(); }
                        public long lifetimeMs() { return Long.MAX_VALUE; }
                        public String principalName() { return "the-principal"; }
                        public Long startTimeMs() { return null; }
                    });
                else
                    it.error("invalid_token", "the-scope", null);
            }
        };
        server = new OAuthBearerSaslServer(new AuthenticateCallbackHandler() {
            public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) { }
            public void handle(Callback[] callbacks) throws java.io.IOException, javax.security.auth.callback.UnsupportedCallbackException {
                validate.handle(callbacks);
            }
            public void close() { }
        });
        return "ok";
    }
}
