"""Reads the wind generator's meter and sends what it sees to the storage controller.

An ordinary field program. Every period it reads the generator's apparent power per phase and the three
dynamic loads from the meter by Modbus/TCP, and sends them over one TCP connection as a line of JSON::

    {"seq": 17, "sent_s": 1559520001.7, "s_kva": [..3], "load_kw": {"692": .., "652": .., "611": ..}}

The controller answers each line with its sequence number. When no answer has come for a while the
connection counts as dead (a cut network does not close anything, it only goes silent), and the
sensor connects anew. Measurements of that time are lost on purpose: a late one is worthless.
"""

import argparse
import json
import logging
import socket
import sys
import time

from pymodbus.client import ModbusTcpClient
from pymodbus.exceptions import ModbusException

LOADS = ("692", "652", "611")
REGISTERS = 2 * (3 + len(LOADS))  # float32 values take two registers each, high word first

log = logging.getLogger("sensor")


class Meter:
    """The generator's meter; input registers 0.. hold s1, s2, s3 [kVA], then the loads [kW]."""

    def __init__(self, host: str, port: int):
        self.client = ModbusTcpClient(host, port=port, timeout=1.0, retries=1)

    def read(self) -> tuple[list[float], dict[str, float]] | None:
        """Apparent power per phase and the loads, or nothing when the meter does not answer."""
        try:
            if not self.client.connected and not self.client.connect():
                log.warning("the meter does not accept a connection")
                return None
            reply = self.client.read_input_registers(0, count=REGISTERS)
            if reply.isError():
                log.warning("the meter answers %s", reply)
                return None
            values = self.client.convert_from_registers(reply.registers, self.client.DATATYPE.FLOAT32)
        except (ModbusException, OSError) as error:
            log.warning("the meter fails: %s", error)
            self.client.close()
            return None
        assert isinstance(values, list)  # of more than one register
        powers = [float(value) for value in values]
        return powers[:3], dict(zip(LOADS, powers[3:], strict=True))


class Uplink:
    """The connection to the controller: connects when needed, drops what falls silent."""

    def __init__(self, host: str, port: int, silence_s: float):
        self.address = (host, port)
        self.silence_s = silence_s
        self.connection: socket.socket | None = None
        self.heard_s = 0.0

    def send(self, message: dict) -> bool:
        if self.connection is None and not self._connect():
            return False
        try:
            self._take_answers()
            if time.monotonic() - self.heard_s > self.silence_s:
                raise TimeoutError(f"no answer for {self.silence_s} s")
            self.connection.sendall(json.dumps(message).encode() + b"\n")
            return True
        except OSError as error:  # also a timeout: the send buffer is full without a reader
            log.warning("the connection is dead: %s", error)
            self.connection.close()
            self.connection = None
            return False

    def _connect(self) -> bool:
        try:
            self.connection = socket.create_connection(self.address, timeout=1.0)
        except OSError as error:
            log.warning("cannot reach the controller at %s:%d: %s", *self.address, error)
            return False
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.heard_s = time.monotonic()
        log.info("connected to the controller at %s:%d", *self.address)
        return True

    def _take_answers(self) -> None:
        self.connection.setblocking(False)
        try:
            while True:
                answer = self.connection.recv(4096)
                if not answer:
                    raise ConnectionError("closed by the controller")
                self.heard_s = time.monotonic()
        except BlockingIOError:
            pass
        finally:
            self.connection.settimeout(1.0)


def run(options: argparse.Namespace) -> None:
    meter = Meter(*options.meter)
    host, port = options.controller
    uplink = Uplink(host, port, options.silence_s)
    period_ns = round(options.period_s * 1e9)
    began_s = time.monotonic()
    sequence = 0
    while options.duration_s is None or time.monotonic() - began_s < options.duration_s:
        # Meters with a synchronised clock read at full periods of civil time, so that readings from
        # different places correspond. A period lost to a slow peer is skipped.
        time.sleep((period_ns - time.time_ns() % period_ns) / 1e9)
        seen = meter.read()
        if seen is not None:
            sequence += 1
            s_kva, load_kw = seen
            message = {"seq": sequence, "sent_s": time.time(), "s_kva": s_kva, "load_kw": load_kw}
            sent = uplink.send(message)
            log.info("seq %d s_kva %.1f %.1f %.1f %s", sequence, *s_kva, "sent" if sent else "not sent")


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description="Send the generator's output to the storage controller.")
    parser.add_argument(
        "--meter",
        type=address,
        default=("127.0.0.1", 502),
        metavar="HOST:PORT",
        help="Modbus/TCP address of the generator's meter (default 127.0.0.1:502)",
    )
    parser.add_argument(
        "--controller", type=address, required=True, metavar="HOST:PORT", help="where the controller listens"
    )
    parser.add_argument("--period-s", type=float, default=0.1, help="seconds between readings (default 0.1)")
    parser.add_argument(
        "--silence-s", type=float, default=3.0, help="seconds without an answer after which to connect anew (default 3)"
    )
    parser.add_argument("--duration-s", type=float, help="stop after so many seconds (default: never)")
    options = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03d %(name)s %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
    )
    logging.getLogger("pymodbus").setLevel(logging.CRITICAL)  # this program reports its errors
    try:
        run(options)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
