"""Runs confluent-kafka. Usage: librdkafka.py ADDRESS

A request is a line of JSON on standard input, its answer one on standard output;
driver_test.go has their fields. It runs with old versions too.
"""

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

import lines

ADDRESS = lines.ADDRESS


def acknowledged(errors):
    """What is called when a record is acknowledged or not."""
    def done(error, _):
        if error is not None:
            errors.append(str(error))
    return done


def send(producer, topic, number, size, done):
    key, value, at, header = lines.record(number, size)
    while True:
        try:
            producer.produce(topic, value, key, 0, on_delivery=done, timestamp=at, headers=[("n", header)])
            return
        except BufferError:
            producer.poll(0.1)


class Members(lines.Members):
    def work(self, member):
        c = Consumer({
            "bootstrap.servers": ADDRESS, "group.id": member.group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "session.timeout.ms": 10000, "heartbeat.interval.ms": 500, "fetch.wait.max.ms": 100, "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": 1000, "partition.assignment.strategy": "range",
        })
        c.subscribe([member.topic])
        while not member.over.is_set():
            got = [r for r in c.consume(100, 0.1) if not r.error()]
            member.owns = len(c.assignment())
            self.note(int(r.value().split()[0]) for r in got)
            if got:
                try:
                    c.commit(asynchronous=False)
                except KafkaException as e:  # whoever has the partition then reads it again
                    lines.say("commit:", e)
        c.close()


class Driver(lines.Driver):
    members = Members()

    def hello(self, q):
        version = confluent_kafka.version()  # older ones add it as a number
        return {"version": version if isinstance(version, str) else version[0]}

    def produce(self, q):
        errors = []
        done = acknowledged(errors)
        p = Producer({"bootstrap.servers": ADDRESS, "compression.type": q.get("codec", "none"), "acks": q.get("acks", "all"), "linger.ms": 50,
                      "message.max.bytes": 10000000})
        for i in range(q["first"], q["first"] + q["n"]):
            send(p, q["topic"], i, q.get("size", 0), done)
        left = p.flush(100)
        if errors or left:
            return {"error": "; ".join(errors[:3]) or "%d are not acknowledged" % left}
        return {}

    def start(self, q):
        self.sender = lines.Sender(self.flow, q["topic"])
        return {}

    def flow(self, topic, over):
        errors = []
        pending = [0]

        def done(error, _):
            pending[0] -= 1
            if error is not None:
                errors.append(str(error))
        p = Producer({"bootstrap.servers": ADDRESS, "enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 50,
                      "reconnect.backoff.max.ms": 500})
        n = 0
        while not over.is_set() and not errors:
            if pending[0] >= 500:
                p.poll(0.05)
                continue
            pending[0] += 1
            send(p, topic, n, 0, done)
            p.poll(0)
            n += 1
        left = p.flush(100)
        if left:
            errors.append("%d are not acknowledged" % left)
        return n, errors

    def stop(self, q):
        return self.sender.stop()

    def open(self, q):
        c = Consumer({"bootstrap.servers": ADDRESS, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error",
                      "fetch.wait.max.ms": 100, "isolation.level": "read_committed" if q.get("committed") else "read_uncommitted",
                      "fetch.message.max.bytes": 1 if q.get("small") else 1048576})
        part = TopicPartition(q["topic"], 0)
        low, high = c.get_watermark_offsets(part, timeout=60)
        at = {"start": low, "end": high}.get(q["from"])
        if at is None:
            at = c.offsets_for_times([TopicPartition(q["topic"], 0, q["time"])], timeout=60)[0].offset
        position = at
        if at < 0 or q["from"] == "time" and at == high:  # newer ones say the end where there is nothing
            at, position = high, -1
        c.assign([TopicPartition(q["topic"], 0, at)])
        self.reader = c
        return {"position": position}

    def read(self, q):
        got = []
        while len(got) < q["n"]:
            r = self.reader.poll(1)
            if r is None:
                continue
            if r.error():
                if r.error().code() in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                    continue
                return {"error": str(r.error())}
            got.append({"o": r.offset(), "k": r.key().decode(), "v": r.value().decode(), "t": r.timestamp()[1],
                        "h": dict(r.headers() or []).get("n", b"").decode()})
        return {"records": got}

    def close(self, q):
        self.reader.close()
        return {}

    @property
    def admin(self):
        if not hasattr(self, "_admin"):
            self._admin = AdminClient({"bootstrap.servers": ADDRESS})
        return self._admin

    def wait(self, futures):
        for f in futures.values():
            f.result(60)
        return {}

    def create(self, q):
        return self.wait(self.admin.create_topics([NewTopic(q["topic"], q["partitions"], 1, config=q.get("config") or {})]))

    def grow(self, q):
        return self.wait(self.admin.create_partitions([NewPartitions(q["topic"], q["partitions"])]))

    def delete(self, q):
        return self.wait(self.admin.delete_topics([q["topic"]]))

    def topics(self, q):
        return {"names": list(self.admin.list_topics(timeout=60).topics)}

    def config(self, q):
        got = list(self.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, q["topic"])]).values())[0].result(60)
        return {"value": got[q["name"]].value}

    def alter(self, q):
        if hasattr(self.admin, "incremental_alter_configs"):
            from confluent_kafka.admin import AlterConfigOpType, ConfigEntry
            entry = ConfigEntry(q["name"], q["value"], incremental_operation=AlterConfigOpType.SET)
            return self.wait(self.admin.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, q["topic"], incremental_configs=[entry])]))
        return self.wait(self.admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, q["topic"], set_config={q["name"]: q["value"]})]))

    def groups(self, q):
        return {"names": [g.id for g in self.admin.list_groups(timeout=60)]}

    def drop(self, q):
        if not hasattr(self.admin, "delete_consumer_groups"):
            return {"unsupported": "this version deletes no groups"}
        return self.wait(self.admin.delete_consumer_groups([q["group"]]))


lines.serve(Driver())
