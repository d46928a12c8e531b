import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import org.apache.kafka.common.requests.AbstractResponse;
import sun.misc.Unsafe;

/** Does Java's client pause for the throttle_time_ms of a response? Each line in is "name version", of its class and it. */
public class ClientThrottles {
    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        var unsafe = (Unsafe) field.get(null);
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            var words = line.split(" ");
            var response = unsafe.allocateInstance(Class.forName("org.apache.kafka.common.requests." + words[0]));
            System.out.println(((AbstractResponse) response).shouldClientThrottle(Short.parseShort(words[1])));
        }
    }
}
