"""A plant for the tests: tells its own time, and misbehaves in one stated way.

Written against docs/plant-protocol.md by hand, because the library would not let it answer nonsense.

config: slow_ms (wall time of each advance), start_ms (of init), stray (leave a child in a session of its
own), misdeed and after_ns (virtual time from
the first request to the one that it is done on; for `abort-unasked`, wall time from init; `eat` waits
for a file of this name, too).
"""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

connection = socket.socket(fileno=int(os.environ["TIMELOOM_PLANT_FD"]))
t_ns, first_ns, step_ns, every_ns = 0, None, 1, 1
record: list[str] = []
config: dict = {}
values = {"t_ns": 0.0, "walk": 0.0, "level": 1.0, "set": 0.0}
chance = random.Random(0)
sampled_start = False


def move(to_ns):
    """To the next instant, not beyond the next step: a random walk, and a tank that `set` fills."""
    global t_ns
    values["level"] += (values["set"] - 0.5 * values["level"]) * (to_ns - t_ns) * 1e-9
    t_ns = to_ns
    values["t_ns"] = float(t_ns)
    if t_ns % step_ns == 0:
        values["walk"] += chance.gauss(0.0, 1.0)


def sample():
    return {"t_ns": t_ns, "values": [values[name] for name in record]}


def advance(to_ns):
    global sampled_start
    began_ns = time.monotonic_ns()
    if to_ns > t_ns:
        time.sleep(config.get("slow_ms", 0) * 1e-3)
    samples = [] if sampled_start or not record else [sample()]
    sampled_start = True
    while t_ns < to_ns:
        move(min(to_ns, (t_ns // step_ns + 1) * step_ns))
        if record and t_ns % every_ns == 0:
            samples.append(sample())
    return {"t_ns": t_ns, "solve_ns": time.monotonic_ns() - began_ns, "samples": samples}


def init(request):
    global step_ns, every_ns, record, config, chance
    step_ns, every_ns, record = request["step_ns"], request["record_every_ns"], request["record"]
    config, chance = request["config"], random.Random(request["seed"])
    time.sleep(config.get("start_ms", 0) * 1e-3)
    if config.get("stray"):
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if config.get("misdeed") == "abort-unasked":
        threading.Timer(config["after_ns"] * 1e-9, os.abort).start()
    return {"name": "test", "signals": [{"name": n, "unit": "1", "writable": n == "set"} for n in values]}


def eat():
    """Takes memory, until somebody ends it; or not, which would be seen."""
    kept = []
    while len(kept) < 1024:
        kept.append(bytearray(b"x") * (1 << 20))
    sys.exit(3)


def misbehave(op, request):
    """Returns whether the request has been dealt with."""
    global first_ns
    misdeed = config.get("misdeed")
    at_ns = request.get("to_ns", t_ns)
    if op != "init" and first_ns is None:
        first_ns = at_ns
    if misdeed is None or first_ns is None or at_ns < first_ns + config["after_ns"]:
        return False
    if misdeed == "abort":
        print("the solver diverges", file=sys.stderr, flush=True)
        os.abort()
    if misdeed == "eat" and os.path.exists("eat"):
        eat()
    if misdeed == "hang":
        time.sleep(600)
    if misdeed == "nonsense":
        connection.sendall(b"Loading model ...\n")
        return True
    if misdeed == "nan" and op == "read":
        connection.sendall(b'{"id":%d,"ok":{"values":[NaN]}}\n' % request["id"])
        return True
    return False


for line in connection.makefile("rb"):
    request = json.loads(line)
    op = request["op"]
    if misbehave(op, request):
        continue
    ok = {}
    if op == "init":
        ok = init(request)
    elif op == "advance":
        ok = advance(request["to_ns"])
    elif op == "read":
        ok = {"values": [values[name] for name in request["signals"]]}
    elif op == "write":
        values.update(request["values"])
    connection.sendall(json.dumps({"id": request["id"], "ok": ok}).encode() + b"\n")
    if op == "stop":
        break
