import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs Kafka's own client, of versions 3 and 4. Usage: Driver.java ADDRESS
 *
 * <p>A request is a line of JSON on standard input, its answer one on standard output;
 * driver_test.go has their fields.
 */
public class Driver {
  static String address;

  /** The requests are flat, but for the configuration of a topic, and no text has quotes. */
  static Map<String, String> parse(String line) {
    Map<String, String> q = new HashMap<>();
    Matcher m = Pattern.compile("\"([^\"]*)\":(?:\"([^\"]*)\"|([-0-9a-z]+))").matcher(line);
    while (m.find()) q.put(m.group(1), m.group(2) != null ? m.group(2) : m.group(3));
    return q;
  }

  static Map<String, String> configs(String line) {
    Matcher m = Pattern.compile("\"config\":(\\{[^}]*\\})").matcher(line);
    return m.find() ? parse(m.group(1)) : Map.of();
  }

  static String quote(String s) {
    StringBuilder b = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') b.append('\\');
      b.append(c < ' ' ? ' ' : c);
    }
    return b.append('"').toString();
  }

  static String names(Collection<String> names) {
    return "{\"names\":[" + names.stream().map(Driver::quote).collect(Collectors.joining(",")) + "]}";
  }

  static ProducerRecord<String, String> record(String topic, int number, int size) {
    String value = String.format("%06d too hot too hot too hot", number);
    if (value.length() < size) value += ".".repeat(size - value.length());
    return new ProducerRecord<>(topic, 0, 1700000000000L + number, "pump-" + number % 7, value,
        List.of(new RecordHeader("n", String.valueOf(number).getBytes(StandardCharsets.UTF_8))));
  }

  static KafkaProducer<String, String> producer(Map<String, Object> more) {
    Map<String, Object> settings = new HashMap<>(more);
    settings.put("bootstrap.servers", address);
    settings.put("max.request.size", 10_000_000);
    settings.put("batch.size", 1_000_000);
    return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
  }

  static KafkaConsumer<String, String> consumer(Map<String, Object> more) {
    Map<String, Object> settings = new HashMap<>(more);
    settings.put("bootstrap.servers", address);
    settings.put("enable.auto.commit", false);
    settings.put("fetch.max.wait.ms", 100);
    settings.put("metadata.max.age.ms", 1000);
    return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
  }

  /** A member of a group, in a thread of its own. */
  static class Member extends Thread {
    static final Map<String, Member> all = new LinkedHashMap<>();
    static final Set<Integer> seen = ConcurrentHashMap.newKeySet();
    static final AtomicInteger reads = new AtomicInteger();
    final Map<String, String> q;
    volatile int owns;
    volatile boolean over;
    volatile Exception error;

    Member(Map<String, String> q) {
      this.q = q;
      setDaemon(true);
    }

    @Override
    public void run() {
      try (var c = consumer(Map.of("group.id", q.get("group"), "auto.offset.reset", "earliest", "session.timeout.ms", 10000, "heartbeat.interval.ms", 500))) {
        c.subscribe(List.of(q.get("topic")));
        while (!over) {
          var records = c.poll(Duration.ofMillis(100));
          owns = c.assignment().size();
          for (var r : records) {
            seen.add(Integer.valueOf(r.value().split(" ")[0]));
            reads.incrementAndGet();
          }
          if (records.isEmpty()) continue;
          try {
            c.commitSync();
          } catch (KafkaException e) { // whoever has the partition then reads it again
            System.err.println("commit: " + e);
          }
        }
      } catch (Exception e) {
        e.printStackTrace();
        error = e;
      }
    }

    static String join(Map<String, String> q) {
      Member m = new Member(q);
      all.put(q.get("member"), m);
      m.start();
      return "{}";
    }

    static String leave(Map<String, String> q) throws Exception {
      Member m = all.remove(q.get("member"));
      m.over = true;
      m.join();
      if (m.error != null) throw m.error;
      return "{}";
    }

    static String group() throws Exception {
      List<String> owns = new ArrayList<>();
      for (var e : all.entrySet()) {
        if (e.getValue().error != null) throw e.getValue().error;
        owns.add(quote(e.getKey()) + ":" + e.getValue().owns);
      }
      return "{\"owns\":{" + String.join(",", owns) + "},\"seen\":" + seen + ",\"reads\":" + reads + "}";
    }
  }

  static String produce(Map<String, String> q) throws Exception {
    String acks = q.getOrDefault("acks", "all");
    List<Future<?>> sent = new ArrayList<>();
    try (var p = producer(Map.of("acks", acks, "enable.idempotence", acks.equals("all"), "linger.ms", 50, "compression.type", q.getOrDefault("codec", "none")))) {
      int first = Integer.parseInt(q.get("first")), n = Integer.parseInt(q.get("n")), size = Integer.parseInt(q.getOrDefault("size", "0"));
      for (int i = first; i < first + n; i++) sent.add(p.send(record(q.get("topic"), i, size)));
      p.flush();
      for (Future<?> f : sent) f.get();
    }
    return "{}";
  }

  static volatile boolean over;
  static Thread sender;
  static final AtomicInteger sent = new AtomicInteger();
  static final AtomicReference<Exception> failed = new AtomicReference<>();

  static void flow(String topic) {
    Semaphore room = new Semaphore(500);
    int n = 0;
    try (var p = producer(Map.of("enable.idempotence", true, "acks", "all", "linger.ms", 0, "reconnect.backoff.max.ms", 500))) {
      for (; !over && failed.get() == null; n++) {
        room.acquire();
        p.send(record(topic, n, 0), (m, e) -> {
          if (e != null) failed.set(e);
          room.release();
        });
      }
      p.flush();
    } catch (Exception e) {
      failed.set(e);
    }
    sent.set(n);
  }

  static String start(Map<String, String> q) {
    over = false;
    failed.set(null);
    sender = new Thread(() -> flow(q.get("topic")));
    sender.setDaemon(true);
    sender.start();
    return "{}";
  }

  static String stop() throws Exception {
    over = true;
    sender.join();
    if (failed.get() != null) throw failed.get();
    return "{\"n\":" + sent + "}";
  }

  static KafkaConsumer<String, String> reader;

  static String open(Map<String, String> q) {
    Map<String, Object> settings = new HashMap<>(Map.of("auto.offset.reset", "none"));
    if (q.containsKey("small")) settings.putAll(Map.of("max.partition.fetch.bytes", 1, "fetch.max.bytes", 1));
    if (q.containsKey("committed")) settings.put("isolation.level", "read_committed");
    reader = consumer(settings);
    TopicPartition part = new TopicPartition(q.get("topic"), 0);
    reader.assign(List.of(part));
    long position;
    switch (q.get("from")) {
      case "start":
        reader.seekToBeginning(List.of(part));
        position = reader.position(part);
        break;
      case "end":
        reader.seekToEnd(List.of(part));
        position = reader.position(part);
        break;
      default:
        OffsetAndTimestamp found = reader.offsetsForTimes(Map.of(part, Long.valueOf(q.get("time")))).get(part);
        position = found == null ? -1 : found.offset();
        if (found == null) reader.seekToEnd(List.of(part));
        else reader.seek(part, position);
    }
    return "{\"position\":" + position + "}";
  }

  static String read(Map<String, String> q) {
    List<String> got = new ArrayList<>();
    int n = Integer.parseInt(q.get("n"));
    while (got.size() < n) {
      for (ConsumerRecord<String, String> r : reader.poll(Duration.ofSeconds(1))) {
        String h = new String(r.headers().lastHeader("n").value(), StandardCharsets.UTF_8);
        got.add(String.format("{\"o\":%d,\"k\":%s,\"v\":%s,\"t\":%d,\"h\":%s}", r.offset(), quote(r.key()), quote(r.value()), r.timestamp(), quote(h)));
      }
    }
    return "{\"records\":[" + String.join(",", got) + "]}";
  }

  static Admin admin;

  static Admin admin() {
    if (admin == null) admin = Admin.create(Map.of("bootstrap.servers", address));
    return admin;
  }

  static String config(Map<String, String> q) throws Exception {
    ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, q.get("topic"));
    return "{\"value\":" + quote(admin().describeConfigs(List.of(r)).all().get().get(r).get(q.get("name")).value()) + "}";
  }

  static String alter(Map<String, String> q) throws Exception {
    ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, q.get("topic"));
    AlterConfigOp op = new AlterConfigOp(new ConfigEntry(q.get("name"), q.get("value")), AlterConfigOp.OpType.SET);
    admin().incrementalAlterConfigs(Map.of(r, List.of(op))).all().get();
    return "{}";
  }

  static String create(Map<String, String> q, Map<String, String> configs) throws Exception {
    NewTopic t = new NewTopic(q.get("topic"), Integer.parseInt(q.get("partitions")), (short) 1).configs(configs);
    admin().createTopics(List.of(t)).all().get();
    return "{}";
  }

  static String version() throws Exception {
    Properties p = new Properties();
    try (var in = Driver.class.getResourceAsStream("/kafka/kafka-version.properties")) {
      p.load(in);
    }
    return p.getProperty("version");
  }

  static String answer(String line) throws Exception {
    Map<String, String> q = parse(line);
    switch (q.get("op")) {
      case "hello": return "{\"version\":" + quote(version()) + "}";
      case "produce": return produce(q);
      case "start": return start(q);
      case "stop": return stop();
      case "open": return open(q);
      case "read": return read(q);
      case "close": reader.close(); return "{}";
      case "join": return Member.join(q);
      case "leave": return Member.leave(q);
      case "group": return Member.group();
      case "forget": Member.seen.clear(); Member.reads.set(0); return "{}";
      case "create": return create(q, configs(line));
      case "grow": admin().createPartitions(Map.of(q.get("topic"), NewPartitions.increaseTo(Integer.parseInt(q.get("partitions"))))).all().get(); return "{}";
      case "delete": admin().deleteTopics(List.of(q.get("topic"))).all().get(); return "{}";
      case "topics": return names(admin().listTopics().names().get());
      case "config": return config(q);
      case "alter": return alter(q);
      case "groups": return names(admin().listConsumerGroups().all().get().stream().map(ConsumerGroupListing::groupId).collect(Collectors.toList()));
      case "drop": admin().deleteConsumerGroups(List.of(q.get("group"))).all().get(); return "{}";
      default: return "{\"unsupported\":\"no " + q.get("op") + "\"}";
    }
  }

  public static void main(String[] args) throws Exception {
    address = args[0];
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String a;
      try {
        a = answer(line);
      } catch (Exception e) {
        e.printStackTrace();
        a = "{\"error\":" + quote(e.toString()) + "}";
      }
      System.out.println(a);
    }
    System.exit(0);
  }
}
