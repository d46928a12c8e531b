import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own consumer protocol and assignors, one command a line of standard input, one line of answer each.
 *
 *   subscription VERSION SUBSCRIPTION      its bytes in hex       read-subscription HEX    the SUBSCRIPTION in them
 *   assignment VERSION PARTITIONS DATA     its bytes in hex       read-assignment HEX      PARTITIONS DATA
 *   data GENERATION                        the user data of cooperative-sticky after that generation, in hex
 *   assign NAME COUNTS MEMBER...           ID=PARTITIONS of each member, both sorted
 *   assign-near NAME RACKS MEMBER...       the same, with the racks of each partition's replicas
 *
 * RACKS         t:a+b/c/-,u:a            by topic, then by partition
 * SUBSCRIPTION  TOPICS;PARTITIONS;GENERATION;RACK;DATA        MEMBER  ID;INSTANCE_ID;SUBSCRIPTION
 * TOPICS  t,u     PARTITIONS  t:0,t:1     COUNTS  t:3,u:1     DATA  hex      "-": none or null, of anything
 */
public class KafkaGroups {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "subscription" -> hex(ConsumerProtocol.serializeSubscription(
                    subscription(words[2].split(";")), Short.parseShort(words[1])));
                case "assignment" -> hex(ConsumerProtocol.serializeAssignment(
                    new Assignment(partitions(words[2]), data(words[3])), Short.parseShort(words[1])));
                case "read-subscription" -> shown(ConsumerProtocol.deserializeSubscription(data(words[1])));
                case "read-assignment" -> shown(ConsumerProtocol.deserializeAssignment(data(words[1])));
                case "data" -> userData(Integer.parseInt(words[1]));
                default -> assign(words);
            });
        }
    }

    static Subscription subscription(String[] cells) {
        return new Subscription(topics(cells[0]), data(cells[4]), partitions(cells[1]),
            cells[2].equals("-") ? -1 : Integer.parseInt(cells[2]),
            cells[3].equals("-") ? Optional.empty() : Optional.of(cells[3]));
    }

    static String shown(Subscription found) {
        return String.join(",", found.topics()) + ";" + shown(found.ownedPartitions()) + ";"
            + found.generationId().map(String::valueOf).orElse("-") + ";" + found.rackId().orElse("-") + ";"
            + hex(found.userData());
    }

    static String shown(Assignment found) {
        return shown(found.partitions()) + " " + hex(found.userData());
    }

    @SuppressWarnings("removal")
    static String userData(int generation) {
        CooperativeStickyAssignor assignor = new CooperativeStickyAssignor();
        if (generation >= 0)
            assignor.onAssignment(new Assignment(List.of()), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        return hex(assignor.subscriptionUserData(Set.of("t")));
    }

    static String assign(String[] words) {
        AbstractPartitionAssignor assignor = switch (words[1]) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            default -> new CooperativeStickyAssignor();
        };
        Map<String, Subscription> members = new HashMap<>();
        for (String word : Arrays.copyOfRange(words, 3, words.length)) {
            String[] cells = word.split(";");
            Subscription subscription = subscription(Arrays.copyOfRange(cells, 2, cells.length));
            if (!cells[1].equals("-"))
                subscription.setGroupInstanceId(Optional.of(cells[1]));
            members.put(cells[0], subscription);
        }
        List<String> rows = new ArrayList<>();
        Map<String, List<TopicPartition>> placed = words[0].equals("assign")
            ? assignor.assign(counts(words[2]), members) : assignor.assignPartitions(replicas(words[2]), members);
        new TreeMap<>(placed).forEach((member, found) -> {
            List<TopicPartition> sorted = new ArrayList<>(found);
            sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
            rows.add(member + "=" + shown(sorted));
        });
        return String.join(" ", rows);
    }

    static Map<String, Integer> counts(String text) {
        Map<String, Integer> counts = new HashMap<>();
        for (String each : text.split(","))
            counts.put(each.split(":")[0], Integer.parseInt(each.split(":")[1]));
        return counts;
    }

    static Map<String, List<PartitionInfo>> replicas(String text) {
        Map<String, List<PartitionInfo>> found = new HashMap<>();
        for (String each : text.split(",")) {
            String topic = each.split(":")[0];
            List<PartitionInfo> partitions = new ArrayList<>();
            for (String racks : each.split(":")[1].split("/")) {
                List<Node> nodes = new ArrayList<>();
                for (String rack : racks.split("\\+"))
                    nodes.add(new Node(nodes.size(), "h", 9, rack.equals("-") ? null : rack));
                Node[] all = nodes.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic, partitions.size(), all[0], all, all));
            }
            found.put(topic, partitions);
        }
        return found;
    }

    static List<String> topics(String text) {
        return text.equals("-") ? new ArrayList<>() : new ArrayList<>(List.of(text.split(",")));
    }

    static List<TopicPartition> partitions(String text) {
        List<TopicPartition> found = new ArrayList<>();
        for (String each : topics(text))
            found.add(new TopicPartition(each.split(":")[0], Integer.parseInt(each.split(":")[1])));
        return found;
    }

    static String shown(List<TopicPartition> partitions) {
        List<String> texts = new ArrayList<>();
        for (TopicPartition tp : partitions)
            texts.add(tp.topic() + ":" + tp.partition());
        return texts.isEmpty() ? "-" : String.join(",", texts);
    }

    static ByteBuffer data(String text) {
        return text.equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(text));
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "-";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return HexFormat.of().formatHex(data);
    }
}
