# Two members of a group, by kafka-python. Usage: kafkapython.py ADDRESS TOPIC
import sys
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer

address, topic = sys.argv[1:]
members = [KafkaConsumer(
    topic, bootstrap_servers=address, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False,
    session_timeout_ms=6000, heartbeat_interval_ms=500, max_poll_records=20,
) for _ in range(2)]
seen, over = set(), threading.Event()


def work(m):
    while not over.is_set():
        for rs in m.poll(timeout_ms=100).values():
            seen.update(int(r.value) for r in rs)
        try:
            m.commit()
        except Exception as e:  # it is read again
            print("commit:", e, file=sys.stderr)
    m.close()


threads = [threading.Thread(target=work, args=(m,)) for m in members]
for t in threads:
    t.start()
for goal in (400, 800):
    while len(seen) < goal or not all(m.assignment() for m in members):
        time.sleep(0.05)
    print("read", len(seen), flush=True)
    sys.stdin.readline()
over.set()
for t in threads:
    t.join()
admin = KafkaAdminClient(bootstrap_servers=address)
getattr(admin, "delete_groups", None) and admin.delete_groups([topic]) or admin.delete_consumer_groups([topic])
print("deleted", flush=True)
