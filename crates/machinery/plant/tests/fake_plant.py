"""A plant for the tests: speaks timeloom-plant/1 well, or badly in one stated way.

usage: fake_plant.py [MISDEED] [JOURNAL]
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

misdeed = sys.argv[1] if len(sys.argv) > 1 else ""
journal = open(sys.argv[2], "a", buffering=1) if len(sys.argv) > 2 else None
connection = socket.socket(fileno=int(os.environ["TIMELOOM_PLANT_FD"]))
lines = connection.makefile("rb")
t_ns = 0
values = {"time": 0.0, "level": 12.5, "set": 0.0, "switch": 0.0, "big": 1e6}
record, every_ns = [], 0


def advance(to_ns):
    global t_ns
    if to_ns < t_ns:
        raise ValueError("backwards")
    samples = []
    while record and t_ns // every_ns < to_ns // every_ns:
        t_ns = (t_ns // every_ns + 1) * every_ns
        values["time"] = t_ns * 1e-9
        samples.append({"t_ns": t_ns, "values": [values[name] for name in record]})
    if len(samples) > 40000:
        raise ValueError("too many samples for a line")
    t_ns = to_ns
    values["time"] = t_ns * 1e-9
    return {"t_ns": t_ns, "solve_ns": 1000, "samples": samples}


for line in lines:
    request = json.loads(line)
    op = request["op"]
    ok: dict[str, object] = {}
    if journal:
        journal.write(line.decode())
    if misdeed == "die-on-" + op:
        print("Segmentation fault in the solver", file=sys.stderr, flush=True)
        os._exit(3)
    if misdeed == "crash-on-" + op:
        os.kill(os.getpid(), signal.SIGSEGV)
    if misdeed == "hang-on-" + op:
        time.sleep(600)
    if misdeed == "close-on-" + op:
        connection.shutdown(socket.SHUT_RDWR)
        time.sleep(600)
    if misdeed == "nonsense-on-" + op:
        connection.sendall(b"Loading model ...\n")
        continue
    if misdeed == "oversize-on-" + op:
        connection.sendall(b" " * (1 << 21))
        continue
    if misdeed == "nan-on-" + op:
        connection.sendall(b'{"id":%d,"ok":{"values":[NaN]}}\n' % request["id"])
        continue
    if misdeed == "binary-on-" + op:
        connection.sendall(b"\xff\xfe\n")
        continue
    if misdeed == "child-on-" + op:
        child = subprocess.Popen(["sleep", "600"])
        print("child", child.pid, file=sys.stderr, flush=True)
    if misdeed.startswith("slow") and op == "advance":
        time.sleep(0.05)
    try:
        if op == "init":
            record, every_ns, t_ns = request["record"], request["record_every_ns"], request["t_ns"]
            ok = {
                "name": "fake",
                "signals": [{"name": n, "unit": "1", "writable": n in ("set", "switch", "big")} for n in values],
            }
        elif op == "advance":
            ok = advance(request["to_ns"])
        elif op == "read":
            ok = {"values": [values[name] for name in request["signals"]]}
        elif op == "write":
            for name, value in request["values"].items():
                if name == "set" and value > 1000:
                    raise ValueError("more than the storage can give")
                values[name] = value
        reply = {"id": request["id"], "ok": ok}
    except (ValueError, KeyError) as error:
        reply = {"id": request["id"], "error": {"message": str(error), "signal": "set"}}
    if misdeed == "id-on-" + op:
        reply["id"] += 1
    if misdeed == "late-on-" + op:
        time.sleep(1.5)
    connection.sendall(json.dumps(reply).encode() + b"\n")
    if misdeed == "twice-on-" + op:
        connection.sendall(json.dumps(reply).encode() + b"\n")
    if op == "stop":
        sys.exit(5 if misdeed == "bad-exit" else 0)
