import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Runs instances of an application of Kafka Streams, of versions 3 and 4. Usage:
 * Streams.java ADDRESS DIRECTORY
 *
 * <p>A request is a line of JSON on standard input, its answer one on standard output;
 * driver_test.go has their fields.
 */
public class Streams {
  static String address;
  static Path directory;

  static Map<String, String> parse(String line) {
    Map<String, String> q = new HashMap<>();
    Matcher m = Pattern.compile("\"([^\"]*)\":(?:\"([^\"]*)\"|([-0-9a-z]+))").matcher(line);
    while (m.find()) q.put(m.group(1), m.group(2) != null ? m.group(2) : m.group(3));
    return q;
  }

  static String quote(String s) {
    StringBuilder b = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') b.append('\\');
      b.append(c < ' ' ? ' ' : c);
    }
    return b.append('"').toString();
  }

  /** Records by the remainder of their number, which is another key than they have. */
  static KStream<String, String> byRemainder(KStream<String, String> in) {
    return in.selectKey((k, v) -> "r" + Integer.parseInt(v.split(" ")[0]) % 5);
  }

  /** Counts them, over all times and in windows of 100 ms, through topics in between. */
  static Topology topology(String topic) {
    StreamsBuilder b = new StreamsBuilder();
    KStream<String, String> in = b.stream(topic, Consumed.with(Serdes.String(), Serdes.String()));
    byRemainder(in).groupByKey(Grouped.as("of-all"))
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("all"))
        .toStream().mapValues(String::valueOf).to(topic + "-counts");
    byRemainder(in).groupByKey(Grouped.as("of-windows"))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(100), Duration.ofHours(1)))
        .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows"))
        .toStream().map((k, n) -> KeyValue.pair(k.key() + "@" + k.window().start(), String.valueOf(n))).to(topic + "-counts");
    return b.build();
  }

  /** An instance, with a directory and a name in the group of its own. */
  static class Instance implements StateRestoreListener {
    static final Map<String, Instance> all = new HashMap<>();
    final AtomicLong restored = new AtomicLong();
    final List<String> failures = Collections.synchronizedList(new ArrayList<>());
    final KafkaStreams streams;

    Instance(Map<String, String> q) {
      Properties p = new Properties();
      p.put("bootstrap.servers", address);
      p.put("application.id", q.get("group"));
      p.put("client.id", q.get("member"));
      p.put("state.dir", home(q).toString());
      p.put("default.key.serde", Serdes.String().getClass());
      p.put("default.value.serde", Serdes.String().getClass());
      p.put("commit.interval.ms", 200);
      p.put("num.stream.threads", 1);
      if (q.containsKey("value")) {
        p.put("processing.guarantee", q.get("value"));
      } else {
        p.put("group.instance.id", q.get("member"));
        p.put("num.standby.replicas", 1);
      }
      streams = new KafkaStreams(topology(q.get("topic")), p);
      streams.setGlobalStateRestoreListener(this);
      streams.setUncaughtExceptionHandler(e -> {
        for (Throwable t = e; t != null; t = t.getCause()) failures.add(String.valueOf(t));
        e.printStackTrace();
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
      });
    }

    @Override
    public void onRestoreStart(TopicPartition part, String store, long first, long end) {}

    @Override
    public void onBatchRestored(TopicPartition part, String store, long end, long n) {}

    @Override
    public void onRestoreEnd(TopicPartition part, String store, long n) {
      restored.addAndGet(n);
    }

    static Path home(Map<String, String> q) {
      return directory.resolve(q.get("member"));
    }

    static String run(Map<String, String> q) {
      Instance i = new Instance(q);
      all.put(q.get("member"), i);
      i.streams.start();
      return "{}";
    }

    static String halt(Map<String, String> q) {
      if (!all.remove(q.get("member")).streams.close(Duration.ofSeconds(60))) throw new IllegalStateException("it does not end");
      return "{}";
    }

    static String erase(Map<String, String> q) throws IOException {
      List<Path> paths = new ArrayList<>();
      try (var walk = Files.walk(home(q))) {
        walk.forEach(paths::add);
      }
      Collections.reverse(paths);
      for (Path p : paths) Files.delete(p);
      return "{}";
    }

    static String state(Map<String, String> q) {
      Instance i = all.get(q.get("member"));
      List<String> names = new ArrayList<>();
      synchronized (i.failures) {
        for (String f : i.failures) names.add(quote(f));
      }
      return "{\"value\":" + quote(i.streams.state().toString()) + ",\"n\":" + i.restored + ",\"names\":[" + String.join(",", names) + "]}";
    }
  }

  static String version() throws Exception {
    Properties p = new Properties();
    try (var in = KafkaStreams.class.getResourceAsStream("/kafka/kafka-streams-version.properties")) {
      p.load(in);
    }
    return p.getProperty("version");
  }

  static String answer(String line) throws Exception {
    Map<String, String> q = parse(line);
    switch (q.get("op")) {
      case "hello": return "{\"version\":" + quote(version()) + "}";
      case "run": return Instance.run(q);
      case "halt": return Instance.halt(q);
      case "erase": return Instance.erase(q);
      case "state": return Instance.state(q);
      default: return "{\"unsupported\":\"no " + q.get("op") + "\"}";
    }
  }

  public static void main(String[] args) throws Exception {
    address = args[0];
    directory = Path.of(args[1]);
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
