"""What the drivers in Python have in common: requests, records and members of a group."""

import json
import os
import sys
import threading
import traceback

ADDRESS = sys.argv[1]


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def record(number, size):
    """Key, value, time in ms and header of a record: as record in franz_test.go."""
    value = "%06d too hot too hot too hot" % number
    return b"pump-%d" % (number % 7), value.ljust(size, ".").encode(), 1700000000000 + number, b"%d" % number


class Member:
    def __init__(self, q):
        self.group, self.topic = q["group"], q["topic"]
        self.owns, self.over, self.error = 0, threading.Event(), None


class Members:
    """Members of groups, each in a thread of its own. work(member) is the client's."""

    def __init__(self):
        self.lock, self.seen, self.reads, self.all = threading.Lock(), set(), 0, {}

    def note(self, numbers):
        with self.lock:
            for n in numbers:
                self.seen.add(n)
                self.reads += 1

    def join(self, q):
        member = Member(q)

        def run():
            try:
                self.work(member)
            except Exception as e:
                traceback.print_exc()
                member.error = repr(e)
        member.thread = threading.Thread(target=run, daemon=True)
        self.all[q["member"]] = member
        member.thread.start()
        return {}

    def leave(self, q):
        member = self.all.pop(q["member"])
        member.over.set()
        member.thread.join()
        return {"error": member.error} if member.error else {}

    def group(self, q):
        for m in self.all.values():
            if m.error:
                return {"error": m.error}
        with self.lock:
            return {"owns": {name: m.owns for name, m in self.all.items()}, "seen": sorted(self.seen), "reads": self.reads}

    def forget(self, q):
        with self.lock:
            self.seen, self.reads = set(), 0
        return {}


class Sender:
    """Sends in a thread: flow(topic, over) returns how many it has sent, and errors."""

    def __init__(self, flow, topic):
        self.over, self.result = threading.Event(), (0, ["nothing was sent"])

        def run():
            try:
                self.result = flow(topic, self.over)
            except Exception as e:
                traceback.print_exc()
                self.result = 0, [repr(e)]
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def stop(self):
        self.over.set()
        self.thread.join()
        n, errors = self.result
        return {"n": n, "error": "; ".join(errors[:3])}


class Driver:
    def join(self, q):
        return self.members.join(q)

    def leave(self, q):
        return self.members.leave(q)

    def group(self, q):
        return self.members.group(q)

    def forget(self, q):
        return self.members.forget(q)


def serve(driver):
    """Answers requests until there are no more."""
    for line in sys.stdin:
        q = json.loads(line)
        try:
            op = getattr(driver, q["op"], None)
            a = op(q) if op else {"unsupported": "no " + q["op"]}
        except Exception as e:
            traceback.print_exc()
            a = {"error": repr(e)}
        print(json.dumps(a), flush=True)
