import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Two static members of a group, by Kafka's own client. Usage: Members.java ADDRESS TOPIC */
public class Members {
  static final Set<String> seen = ConcurrentHashMap.newKeySet();
  static final Set<Integer> working = ConcurrentHashMap.newKeySet();
  static volatile boolean over;

  static void work(String address, String topic, int number) {
    Map<String, Object> settings = Map.of("bootstrap.servers", address, "group.id", topic, "auto.offset.reset", "earliest",
        "enable.auto.commit", false, "session.timeout.ms", 6000, "heartbeat.interval.ms", 500, "group.instance.id", "number-" + number);
    try (var c = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      c.subscribe(List.of(topic));
      while (!over) {
        c.poll(Duration.ofMillis(100)).forEach(r -> seen.add(r.value()));
        c.commitSync(); // members outlive the broker, so that this does not fail behind its start
        if (!c.assignment().isEmpty()) working.add(number);
      }
    } catch (Exception e) {
      e.printStackTrace();
      System.exit(1);
    }
  }

  public static void main(String[] args) throws Exception {
    List<Thread> members = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      int number = i;
      members.add(new Thread(() -> work(args[0], args[1], number)));
      members.get(i).start();
    }
    for (int goal : new int[] {400, 800}) {
      while (seen.size() < goal || working.size() < 2) Thread.sleep(50);
      System.out.println("read " + seen.size());
      System.in.read();
    }
    over = true;
    for (Thread t : members) t.join();
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
      admin.removeMembersFromConsumerGroup(args[1], new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions()).all().get();
      admin.deleteConsumerGroups(List.of(args[1])).all().get();
    }
    System.out.println("deleted");
  }
}
