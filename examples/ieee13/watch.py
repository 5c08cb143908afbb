"""Watches whether what the controller is told can be true, and raises an alarm when it cannot.

It runs beside the controller, which knows nothing of it, and hears what the sensor reports by a packet socket. What is
reported must agree with what the substation and the storage measure, which the network brings by other ways::

    imbalance = drawn from the grid + 0.9 * reported powers + delivered by the storage - reported loads     [kW]

is what steady loads and losses take. The feeder keeps it within a band, whatever wind and loads do: what is
outside was not measured at this feeder now. One odd value is no alarm; ``--strikes`` of them in a row are.

What it hears and computes it writes to the historian, so that it can be seen afterwards. With ``--key`` it also tells
the switch's controller, and says so again until that answers that the liar is cut off.
"""

import argparse
import json
import math
import select
import socket
import struct
import time

import alarm

from timeloom.modbus import Client, ModbusError

TCP = 6
#: Power factor of the wind generator (modified.dss).
POWER_FACTOR = 0.9
PHASE_LOADS = ("692", "652", "611")
ASK_AGAIN_S = 0.5


class Reports:
    """What comes from the sensor for the controller, heard and not asked for."""

    def __init__(self, interface: str, sensor: str, port: int):
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.wire.bind((interface, 0x0800))
        self.sensor, self.port = socket.inet_aton(sensor), port
        self.newest = 0

    def hear(self) -> list[tuple[list[float], list[float]]]:
        """Powers and loads of each report that is new."""
        packet, sender = self.wire.recvfrom(65536)
        header_bytes = (packet[0] & 15) * 4
        if sender[2] == socket.PACKET_OUTGOING or packet[9] != TCP or packet[12:16] != self.sensor:
            return []
        length = struct.unpack_from("!H", packet, 2)[0]
        segment = packet[header_bytes:length]
        if len(segment) < 20 or struct.unpack_from("!H", segment, 2)[0] != self.port:
            return []
        lines = segment[(segment[12] >> 4) * 4 :].split(b"\n")
        return [report for report in map(self._report, lines) if report is not None]

    def _report(self, line: bytes) -> tuple[list[float], list[float]] | None:
        try:
            message = json.loads(line)
            sequence = int(message["seq"])
            powers_kva = [float(kva) for kva in message["s_kva"]]
            loads_kw = [float(message["load_kw"][name]) for name in PHASE_LOADS]
        except (ValueError, KeyError, TypeError):
            return None
        # A retransmitted or older message has been processed already.
        if sequence <= self.newest or len(powers_kva) != 3 or not all(map(math.isfinite, powers_kva + loads_kw)):
            return None
        self.newest = sequence
        return powers_kva, loads_kw


class Switch:
    """Who can cut a port off."""

    def __init__(self, key: bytes, broadcast: str):
        self.key, self.broadcast = key, broadcast
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self.socket.bind(("0.0.0.0", alarm.WATCH_PORT))
        # Also larger after a restart.
        self.count = time.time_ns()
        self.told_s = -math.inf

    def tell(self) -> None:
        if time.monotonic() - self.told_s < ASK_AGAIN_S:
            return
        self.told_s = time.monotonic()
        self.count += 1
        self.socket.sendto(alarm.sealed(self.key, alarm.ALARM, self.count), (self.broadcast, alarm.SWITCH_PORT))

    def answers(self) -> bool:
        """Whether this datagram says that the liar is cut off."""
        return alarm.opened(self.key, self.socket.recv(512), alarm.ISOLATED) == self.count


def watch(options: argparse.Namespace) -> None:
    reports = Reports(options.interface, options.sensor, options.port)
    substation, storage, historian = (Client(host) for host in (options.substation, options.storage, options.historian))
    switch = Switch(options.key.encode(), options.broadcast) if options.key else None
    waiting = [reports.wire] + ([switch.socket] if switch else [])
    strikes, raised, isolated = 0, False, False
    print("watching", flush=True)
    while True:
        for ready in select.select(waiting, [], [])[0]:
            if switch and ready is switch.socket:
                isolated = switch.answers() or isolated
                print("the switch says: isolated" if isolated else "a datagram of another sender", flush=True)
                continue
            for powers_kva, loads_kw in reports.hear():
                try:
                    drawn_kw, stored_kw = substation.read_float(0), storage.read_floats(0, 3)
                    imbalance_kw = drawn_kw + POWER_FACTOR * sum(powers_kva) + sum(stored_kw) - sum(loads_kw)
                    strikes = strikes + 1 if abs(imbalance_kw - options.expected_kw) > options.band_kw else 0
                    if strikes >= options.strikes and not raised:
                        raised = True
                        print(f"ALARM: an imbalance of {imbalance_kw:.0f} kW, {strikes} reports in a row", flush=True)
                    if raised and switch and not isolated:
                        switch.tell()
                    historian.write_floats(0, [*powers_kva, imbalance_kw, float(raised), float(isolated)])
                except ModbusError as error:
                    print(error, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--sensor", default="10.0.0.2", help="address of the sensor (default 10.0.0.2)")
    parser.add_argument("--port", type=int, default=5000, help="port of the controller (default 5000)")
    parser.add_argument("--storage", default="10.0.0.11", help="the storage device (default 10.0.0.11)")
    parser.add_argument("--substation", default="10.0.0.13", help="meter at the feeder's head (default 10.0.0.13)")
    parser.add_argument("--historian", default="10.0.0.14", help="server for the measurements (default 10.0.0.14)")
    parser.add_argument("--expected-kw", type=float, default=2735.0, help="the imbalance of truth (default 2735 kW)")
    parser.add_argument("--band-kw", type=float, default=100.0, help="tolerated deviation (default 100 kW)")
    parser.add_argument("--strikes", type=int, default=5, help="reports outside in a row that are an alarm (default 5)")
    parser.add_argument("--broadcast", default="10.0.0.255", help="destination of alarms (default 10.0.0.255)")
    parser.add_argument("--key", help="shared with the switch's controller; without it no alarm is sent")
    watch(parser.parse_args())


if __name__ == "__main__":
    main()
