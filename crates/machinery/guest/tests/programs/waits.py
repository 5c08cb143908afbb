"""Python's timed waits, one per thread; the same lines as `waits.c` prints."""

import asyncio
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures

GATE, WAIT_S = sys.argv[1], int(sys.argv[2]) / 1000


def sleep():
    return time.sleep(WAIT_S)


def queue_get():
    try:
        queue.Queue().get(timeout=WAIT_S)
    except queue.Empty:
        return "empty"


def simple_queue_get():
    try:
        queue.SimpleQueue().get(timeout=WAIT_S)
    except queue.Empty:
        return "empty"


def condition_wait():
    with (condition := threading.Condition()):
        return condition.wait(WAIT_S)


def event_wait():
    return threading.Event().wait(WAIT_S)


def lock_acquire():
    lock = threading.Lock()
    lock.acquire()
    return lock.acquire(timeout=WAIT_S)


def join():
    thread = threading.Thread(target=time.sleep, args=(3 * WAIT_S,), daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return thread.is_alive()


def future_result():
    try:
        futures.Future().result(timeout=WAIT_S)
    except futures.TimeoutError:
        return "timeout"


def socket_receive():
    one, _other = socket.socketpair()
    one.settimeout(WAIT_S)
    try:
        return one.recv(1)
    except TimeoutError as error:
        return str(error).replace(" ", "-")


def socket_accept():
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(WAIT_S)
    try:
        return server.accept()
    except TimeoutError:
        return "timeout"


def select_call():
    one, _other = socket.socketpair()
    return len(select.select([one], [], [], WAIT_S)[0])


def selector():
    chosen = selectors.DefaultSelector()
    one, _other = socket.socketpair()
    chosen.register(one, selectors.EVENT_READ)
    return len(chosen.select(WAIT_S))


def asyncio_sleep():
    return asyncio.run(asyncio.sleep(WAIT_S, "done"))


def asyncio_wait_for():
    async def wait():
        try:
            await asyncio.wait_for(asyncio.Event().wait(), WAIT_S)
        except TimeoutError:
            return "timeout"

    return asyncio.run(wait())


def subprocess_timeout():
    child = subprocess.Popen(["sleep", "100"], stdout=subprocess.DEVNULL)
    try:
        child.wait(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        return "expired"
    finally:
        child.kill()
        child.wait()


def subprocess_sleep():
    return subprocess.run(["sleep", str(WAIT_S)]).returncode


def data_arrives():
    one, other = socket.socketpair()
    threading.Timer(WAIT_S, other.send, (b"x",)).start()
    one.settimeout(10 * WAIT_S)
    return len(one.recv(10))


CASES = [
    sleep,
    queue_get,
    simple_queue_get,
    condition_wait,
    event_wait,
    lock_acquire,
    join,
    future_result,
    socket_receive,
    socket_accept,
    select_call,
    selector,
    asyncio_sleep,
    asyncio_wait_for,
    subprocess_timeout,
    subprocess_sleep,
    data_arrives,
]


def run(case, begin):
    begin.wait()
    begun = time.monotonic_ns()
    result = case()
    lasted = time.monotonic_ns() - begun
    line = f"py_{case.__name__} ret={result} want_ns={int(WAIT_S * 1e9)} virtual_ns={lasted}\n"
    sys.stdout.write(line)
    sys.stdout.flush()


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
barrier = threading.Barrier(len(CASES) + 1)
threads = [threading.Thread(target=run, args=(case, barrier)) for case in CASES]
for thread in threads:
    thread.start()
with open(GATE) as gate:
    print("ready", flush=True)
    gate.read()
barrier.wait()
for thread in threads:
    thread.join()
