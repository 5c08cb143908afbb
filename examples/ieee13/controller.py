"""Keeps the grid's supply level: sets the storage from what the wind generator delivers.

An ordinary control program. It listens for the sensor, and for each measurement commands per phase
what the generator lacks (above zero: discharge, below: charge)::

    P_storage = base + dynamic loads of the phase - S_generator        [kW, kVA]

The bases come from the published case, where the constant part was written next to the loads it saw:
807 (phase A), 973 (B), 1082 (C). Our dynamic loads are those at 692 and 652 (phase A) and 611 (C), so the
nominal 128 kW of 652 leave the base of A and the nominal 66 kW of the steady load at 680 joins that of B.

A measurement older than ``--max-age-s`` by our own clock is dropped: acting late on old news is worse than
waiting. When nothing arrives, the last set point holds, which is exactly what an attacker who cuts
the line makes use of.
"""

import argparse
import json
import logging
import math
import selectors
import socket
import sys
import time

from pymodbus.client import ModbusTcpClient
from pymodbus.exceptions import ModbusException

BASE_KW = (807.0 - 128.0, 973.0 + 66.0, 1082.0)
PHASE_LOADS = (("692", "652"), (), ("611",))
RATED_KW = 2000.0
LINE_LIMIT_BYTES = 4096

log = logging.getLogger("controller")


class Measurement:
    """One line from the sensor, checked; raises ValueError when it is not one."""

    def __init__(self, line: bytes):
        try:
            message = json.loads(line)
            self.sequence = int(message["seq"])
            self.sent_s = float(message["sent_s"])
            self.s_kva = [float(value) for value in message["s_kva"]]
            self.load_kw = {str(name): float(value) for name, value in message["load_kw"].items()}
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not a measurement: {error!r}") from None
        numbers = [self.sent_s, *self.s_kva, *self.load_kw.values()]
        if len(self.s_kva) != 3 or not all(math.isfinite(number) for number in numbers):
            raise ValueError("not a measurement: three finite phases are needed")
        if any(name not in self.load_kw for names in PHASE_LOADS for name in names):
            raise ValueError("not a measurement: a load is missing")


def set_points_kw(s_kva: list[float], load_kw: dict[str, float]) -> list[float]:
    """The rule, per phase, within the rating of the storage. Inputs in kVA and kW."""
    wanted = [
        base + sum(load_kw[name] for name in loads) - s
        for base, loads, s in zip(BASE_KW, PHASE_LOADS, s_kva, strict=True)
    ]
    return [min(max(kw, -RATED_KW), RATED_KW) for kw in wanted]


class Storage:
    """The storage device; holding registers 0.. take the set points of the three phases [kW]."""

    def __init__(self, host: str, port: int):
        self.client = ModbusTcpClient(host, port=port, timeout=1.0, retries=1)

    def command(self, kw: list[float]) -> bool:
        try:
            if not self.client.connected and not self.client.connect():
                log.warning("the storage does not accept a connection")
                return False
            registers = self.client.convert_to_registers(kw, self.client.DATATYPE.FLOAT32)
            reply = self.client.write_registers(0, registers)
            if reply.isError():
                log.warning("the storage answers %s", reply)
                return False
            return True
        except (ModbusException, OSError) as error:
            log.warning("the storage fails: %s", error)
            self.client.close()
            return False


class Controller:
    """Serves one sensor at a time; a newer connection replaces an older one."""

    def __init__(self, storage: Storage, max_age_s: float):
        self.storage = storage
        self.max_age_s = max_age_s
        self.acted_s: float | None = None  # monotonic; when the last set point was written
        self.holding = False
        self.last_kw: list[float] | None = None

    def run(self, listener: socket.socket, duration_s: float | None) -> None:
        began_s = time.monotonic()
        listener.setblocking(False)
        waiting = selectors.DefaultSelector()
        waiting.register(listener, selectors.EVENT_READ)
        sensor: socket.socket | None = None
        pending = b""
        while duration_s is None or time.monotonic() - began_s < duration_s:
            for key, _ in waiting.select(timeout=0.5):
                if key.fileobj is listener:
                    # The old connection may be half-open without a notification.
                    if sensor is not None:
                        waiting.unregister(sensor)
                        sensor.close()
                    sensor, peer = listener.accept()
                    sensor.settimeout(1.0)
                    sensor.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    waiting.register(sensor, selectors.EVENT_READ)
                    pending = b""
                    log.info("the sensor connects from %s:%d", *peer[:2])
                elif key.fileobj is sensor:
                    try:
                        pending = self._receive(sensor, pending)
                    except (OSError, ValueError) as error:
                        log.warning("the sensor's connection ends: %s", error)
                        waiting.unregister(sensor)
                        sensor.close()
                        sensor = None
            self._notice_silence()

    def _receive(self, sensor: socket.socket, pending: bytes) -> bytes:
        received = sensor.recv(65536)
        if not received:
            raise ConnectionError("closed by the sensor")
        *lines, rest = (pending + received).split(b"\n")
        if len(rest) > LINE_LIMIT_BYTES:
            raise ValueError("a line without end")
        for line in lines:
            measurement = Measurement(line)
            self._act(measurement)
            sensor.sendall(b"%d\n" % measurement.sequence)
        return rest

    def _act(self, measurement: Measurement) -> None:
        age_s = time.time() - measurement.sent_s
        if age_s > self.max_age_s:
            log.warning("seq %d dropped: %.3f s old", measurement.sequence, age_s)
            return
        kw = set_points_kw(measurement.s_kva, measurement.load_kw)
        done = self.storage.command(kw)
        if done:
            self.acted_s, self.last_kw, self.holding = time.monotonic(), kw, False
        log.info(
            "seq %d age %.4f s storage_kw %.1f %.1f %.1f %s",
            measurement.sequence,
            age_s,
            *kw,
            "written" if done else "not written",
        )

    def _notice_silence(self) -> None:
        if self.acted_s is None or self.holding or time.monotonic() - self.acted_s <= self.max_age_s:
            return
        self.holding = True
        log.warning("no fresh measurement for %.1f s; holding %.1f %.1f %.1f kW", self.max_age_s, *self.last_kw)


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description="Set the storage from the generator's measured output.")
    parser.add_argument(
        "--listen",
        type=address,
        default=("0.0.0.0", 5000),
        metavar="HOST:PORT",
        help="where the sensor connects (default 0.0.0.0:5000)",
    )
    parser.add_argument(
        "--storage",
        type=address,
        default=("127.0.0.1", 502),
        metavar="HOST:PORT",
        help="Modbus/TCP address of the storage device (default 127.0.0.1:502)",
    )
    parser.add_argument("--max-age-s", type=float, default=1.0, help="older measurements are dropped (default 1 s)")
    parser.add_argument("--duration-s", type=float, help="stop after so many seconds (default: never)")
    options = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03d %(name)s %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
    )
    logging.getLogger("pymodbus").setLevel(logging.CRITICAL)  # this program reports its errors
    with socket.create_server(options.listen) as listener:
        log.info("listening on %s:%d", *options.listen)
        try:
            Controller(Storage(*options.storage), options.max_age_s).run(listener, options.duration_s)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
