"""What party.c does, in Python: NAME LISTEN PEER PEER KEY."""

import select
import sys
import time

from timeloom.messages import Datagrams
from timeloom.timeline import Order, Timeline

name, listen, *peers, key = sys.argv[1:]
timeline = Timeline("cell")
heard: set[str] = set()


def told(message):
    assert message.key == "hello/" + message.payload.decode(), message
    assert message.acted.earliest_ns >= message.act_at_ns, "not at its time"
    assert message.order != Order.AFTER, "sent after it has arrived"
    heard.add(message.key)


said = False
# Messages from before this party's start also count as unproved, so they are excluded.
before = 0
with Datagrams(timeline, "run", listen=listen, peers=peers, key=key.encode()) as channel:
    channel.subscribe("hello/*", told, at_time=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        channel.publish(f"hello/{name}", name.encode(), act_at_ns=timeline.read().latest_ns + 20_000_000)
        if not said and len(heard) == 2:
            said, before = True, channel.unproved
            print("heard both", flush=True)
    for _ in range(1200):
        if channel.unproved >= before + 2:
            break
        time.sleep(0.05)
    print(f"{len(heard)} heard, {channel.unproved - before} unproved, {channel.dropped} dropped")
