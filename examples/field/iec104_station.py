"""A controlling station that protects a feeder over IEC 60870-5-104: has its current sent, and switches its breaker."""

import queue
import sys

import c104
from feeder import Protection

received: queue.Queue[float] = queue.Queue()


def value(point: c104.Point, previous_info: c104.Information, message: c104.IncomingMessage) -> c104.ResponseState:
    # Of a short floating-point measurement, which is a number; other points have other values.
    received.put(float(point.value))  # type: ignore[arg-type]
    return c104.ResponseState.SUCCESS


client = c104.Client()
connection = client.add_connection(ip=sys.argv[1], port=2404, init=c104.Init.ALL)
station = connection.add_station(common_address=1)
current = station.add_point(io_address=11, type=c104.Type.M_ME_NC_1)
current.on_receive(callable=value)
breaker = station.add_point(io_address=12, type=c104.Type.C_SC_NA_1)
client.start()


def sent_current() -> float:
    """The next value. On a busy machine c104 sometimes connects and does not ask for values; then
    it is asked to do so again."""
    while True:
        try:
            return received.get(timeout=2.0)
        except queue.Empty:
            if connection.is_connected and connection.is_muted:
                connection.unmute()


protection = Protection(*map(float, sys.argv[2:]))
while True:
    close = protection.decide(sent_current())
    if close is not None:
        breaker.value = close
        if not breaker.transmit(cause=c104.Cot.ACTIVATION):
            print("the command was not confirmed", flush=True)
