"""Runs kafka-python. Usage: kafkapython.py ADDRESS

A request is a line of JSON on standard input, its answer one on standard output;
driver_test.go has their fields. It runs with version 2.0 too, which has other names.
"""

import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import KafkaError

import lines

ADDRESS = lines.ADDRESS
OLD = kafka.__version__.startswith("2.0.")


def consumer(**more):
    return KafkaConsumer(bootstrap_servers=ADDRESS, enable_auto_commit=False, fetch_max_wait_ms=100, **more)


class Members(lines.Members):
    def work(self, member):
        c = consumer(group_id=member.group, auto_offset_reset="earliest", session_timeout_ms=10000, heartbeat_interval_ms=500,
                     metadata_max_age_ms=1000)
        c.subscribe([member.topic])
        while not member.over.is_set():
            got = [r for rs in c.poll(timeout_ms=100).values() for r in rs]
            member.owns = len(c.assignment())
            self.note(int(r.value.split()[0]) for r in got)
            if got:
                try:
                    c.commit()
                except KafkaError as e:  # whoever has the partition then reads it again
                    lines.say("commit:", repr(e))
        c.close()


class Driver(lines.Driver):
    members = Members()

    def hello(self, q):
        return {"version": kafka.__version__}

    def send(self, p, topic, number, size=0):
        key, value, at, header = lines.record(number, size)
        return p.send(topic, value, key, [("n", header)], 0, at)

    def produce(self, q):
        acks = {"0": 0, "1": 1}.get(q.get("acks"), "all")
        more = {} if OLD else {"enable_idempotence": acks == "all"}
        codec = q.get("codec", "none")
        p = KafkaProducer(bootstrap_servers=ADDRESS, acks=acks, linger_ms=50, retries=20, max_request_size=10000000,
                          compression_type=None if codec == "none" else codec, **more)
        try:
            futures = [self.send(p, q["topic"], i, q.get("size", 0)) for i in range(q["first"], q["first"] + q["n"])]
            for f in futures:
                f.get(100)
        finally:
            p.close()
        return {}

    def start(self, q):
        if OLD:
            return {"unsupported": "this version has no idempotent producer"}
        self.sender = lines.Sender(self.flow, q["topic"])
        return {}

    def flow(self, topic, over):
        p = KafkaProducer(bootstrap_servers=ADDRESS, enable_idempotence=True, linger_ms=0, retry_backoff_ms=50,
                          reconnect_backoff_max_ms=500)
        pending, n, errors = [], 0, []
        while not over.is_set():
            if len(pending) >= 500:
                pending.pop(0).get(100)
            pending.append(self.send(p, topic, n))
            n += 1
        for f in pending:
            f.get(100)
        p.close()
        return n, errors

    def stop(self, q):
        return self.sender.stop()

    def open(self, q):
        c = consumer(auto_offset_reset="none", **({"isolation_level": "read_committed"} if q.get("committed") and not OLD else {}),
                     **({"max_partition_fetch_bytes": 1, "fetch_max_bytes": 1} if q.get("small") else {}))
        if q.get("committed") and OLD:
            return {"unsupported": "this version has no isolation level"}
        part = TopicPartition(q["topic"], 0)
        c.assign([part])
        if q["from"] == "start":
            c.seek_to_beginning(part)
            position = c.position(part)
        elif q["from"] == "end":
            c.seek_to_end(part)
            position = c.position(part)
        else:
            found = c.offsets_for_times({part: q["time"]})[part]
            position = -1 if found is None else found.offset
            c.seek_to_end(part) if found is None else c.seek(part, found.offset)
        self.reader = c
        return {"position": position}

    def read(self, q):
        got = []
        while len(got) < q["n"]:
            for rs in self.reader.poll(timeout_ms=1000).values():
                got += [{"o": r.offset, "k": r.key.decode(), "v": r.value.decode(), "t": r.timestamp,
                         "h": dict(r.headers).get("n", b"").decode()} for r in rs]
        return {"records": got}

    def close(self, q):
        self.reader.close()
        return {}

    @property
    def admin(self):
        if not hasattr(self, "_admin"):
            self._admin = KafkaAdminClient(bootstrap_servers=ADDRESS)
        return self._admin

    def create(self, q):
        self.admin.create_topics([NewTopic(q["topic"], q["partitions"], 1, topic_configs=q.get("config") or {})])
        return {}

    def grow(self, q):
        self.admin.create_partitions({q["topic"]: NewPartitions(q["partitions"])})
        return {}

    def delete(self, q):
        self.admin.delete_topics([q["topic"]])
        return {}

    def topics(self, q):
        return {"names": self.admin.list_topics()}

    def config(self, q):
        if OLD:
            answer = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, q["topic"])])[0]
            return {"value": {e[0]: e[1] for e in answer.resources[0][4]}[q["name"]]}
        answer = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, q["topic"])], config_filter="all")
        return {"value": answer["topic"][q["topic"]][q["name"]]["value"]}

    def alter(self, q):
        answer = self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, q["topic"], {q["name"]: q["value"]})])
        lines.say("alter:", answer)
        return {}

    def groups(self, q):
        if OLD:
            return {"names": [g[0] for g in self.admin.list_consumer_groups()]}
        return {"names": [g["group_id"] for g in self.admin.list_groups()]}

    def drop(self, q):
        (self.admin.delete_consumer_groups if OLD else self.admin.delete_groups)([q["group"]])
        return {}


lines.serve(Driver())
