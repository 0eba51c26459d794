# Two members of a group, by confluent-kafka. Usage: confluent.py ADDRESS TOPIC
import sys

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

address, topic = sys.argv[1:]
members = [Consumer({
    "bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    "session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "partition.assignment.strategy": "cooperative-sticky",
}) for _ in range(2)]
for m in members:
    m.subscribe([topic])
seen = set()
for goal in (400, 800):
    while len(seen) < goal or not all(m.assignment() for m in members):
        for m in members:
            r = m.poll(0.05)
            if r is not None and not r.error():
                seen.add(int(r.value()))
                try:
                    m.commit(r, asynchronous=False)
                except Exception as e:  # it is read again
                    print("commit:", e, file=sys.stderr)
    for m in members:
        try:
            m.commit(asynchronous=False)
        except Exception as e:  # there may be nothing new
            print("commit:", e, file=sys.stderr)
    print("read", len(seen), flush=True)
    sys.stdin.readline()
for m in members:
    m.close()
admin = AdminClient({"bootstrap.servers": address})  # which has to outlive its calls
admin.delete_consumer_groups([topic])[topic].result()
print("deleted", flush=True)
