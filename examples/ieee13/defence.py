"""The controller of the switch in the middle: it takes note of who lies about addresses, and cuts him off when told to.

Every ARP frame comes here on its way. At the beginning each protected address is asked for, so that it is known which
hardware address it has before anybody lies. Who later claims it with another one is a suspect, with the port that
the claim came from. Nothing more is done yet: an address moves for good reasons too, as when a device is replaced, and
a field device must not be cut off by mistake. When the watch, which looks at what is measured, says with its seal that
the measurements cannot be true, both agree: the suspects' ports are cut off, frames for them are dropped, and those who
believed them are told the truth again.
"""

import argparse
import asyncio
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "sdn"))
import alarm
from learning_switch import (
    FEATURES_REPLY,
    FLOOD,
    TO_CONTROLLER,
    Controller,
    Switch,
    flow,
    match,
    packet_out,
)

ARP, IPV4, UDP = 0x0806, 0x0800, 17
REQUEST, REPLY = 1, 2
ARP_FRAME = struct.Struct("!HHBBH6s4s6s4s")
EVERYBODY = b"\xff" * 6
#: Hardware address of this defence in frames that it creates. Locally administered.
OWN = bytes.fromhex("0200005ec0de")
OWN_ADDRESS = "10.0.0.250"
#: A kernel ignores a second answer within a second, so the message is repeated.
TOLD_AFTER_S = (0.0, 1.1, 2.2)
DROP, INSPECT = 100, 10


def arp(target, operation, sender, sender_ip, asked, asked_ip):
    body = ARP_FRAME.pack(1, IPV4, 6, 4, operation, sender, sender_ip, asked, asked_ip)
    return target + OWN + struct.pack("!H", ARP) + body


def datagram(target, target_ip, port, data):
    """A frame with a UDP datagram of ours. Its sum may be left out (RFC 768), that of the header may not."""
    udp = struct.pack("!HHHH", alarm.SWITCH_PORT, port, 8 + len(data), 0) + data
    source_ip = socket.inet_aton(OWN_ADDRESS)
    header = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, UDP, 0, source_ip, target_ip))
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", header, 10, ~total & 0xFFFF)
    return target + OWN + struct.pack("!H", IPV4) + bytes(header) + udp


class GuardedSwitch(Switch):
    """A switch that learns, and in which ports can be cut off."""

    def __init__(self, protected, key, later):
        super().__init__()
        self.key = key
        #: ``later(seconds, message)`` sends a message to the switch after that time.
        self.later = later
        #: Hardware address and port by IP address, as first claimed.
        self.known = {socket.inet_aton(address): None for address in protected}
        #: Ports from which another host's address was claimed, with the hardware addresses used.
        self.suspects = {}
        self.cut_off = set()
        self.newest_alarm = 0

    def handle(self, kind, xid, body):
        answer = super().handle(kind, xid, body)
        if kind == FEATURES_REPLY:
            answer += flow(INSPECT, match(ether_type=ARP), TO_CONTROLLER)
            for address in self.known:
                asking = arp(EVERYBODY, REQUEST, OWN, bytes(4), bytes(6), address)
                answer += packet_out(TO_CONTROLLER, FLOOD, asking)
        return answer

    def forward(self, in_port, frame):
        if in_port in self.cut_off:
            return b""
        ether_type = frame[12:14]
        if ether_type == struct.pack("!H", ARP) and len(frame) >= 14 + ARP_FRAME.size:
            *_, sender, sender_ip, _, _ = ARP_FRAME.unpack_from(frame, 14)
            self.inspect(in_port, sender, sender_ip)
            if frame[:6] == OWN:
                return b""
        alarmed = self.alarm_in(frame)
        return super().forward(in_port, frame) if alarmed is None else self.isolate(in_port, frame, alarmed)

    def inspect(self, port, sender, sender_ip):
        if sender_ip not in self.known:
            return
        if self.known[sender_ip] is None:
            self.known[sender_ip] = sender
            print("%s is %s" % (socket.inet_ntoa(sender_ip), sender.hex(":")))
        elif self.known[sender_ip] != sender and sender not in self.suspects.setdefault(port, set()):
            self.suspects[port].add(sender)
            claim = (socket.inet_ntoa(sender_ip), sender.hex(":"), port)
            print("%s is claimed by %s at port %d: a suspect" % claim)

    def alarm_in(self, frame):
        """The number of an alarm of the watch that is newer than all before, if that is what the frame is."""
        if frame[12:14] != struct.pack("!H", IPV4) or len(frame) < 42 or frame[23] != UDP:
            return None
        udp_at = 14 + (frame[14] & 15) * 4
        if len(frame) < udp_at + 8:
            return None
        _, port, length = struct.unpack_from("!HHH", frame, udp_at)
        if port != alarm.SWITCH_PORT:
            return None
        count = alarm.opened(self.key, frame[udp_at + 8 : udp_at + length], alarm.ALARM)
        if count is None or count <= self.newest_alarm:
            return None
        self.newest_alarm = count
        return count

    def isolate(self, port, frame, count):
        """Rules that cut the suspects off, and what those who believed them are told."""
        rules = b""
        for suspect, liars in self.suspects.items():
            if suspect not in self.cut_off:
                print("port %d is cut off" % suspect)
            self.cut_off.add(suspect)
            rules += flow(DROP, match(in_port=suspect))
            rules += b"".join(flow(DROP, match(destination=liar)) for liar in liars)
        if self.cut_off:
            self.tell_the_truth()
            said = alarm.sealed(self.key, alarm.ISOLATED, count)
            answer = datagram(frame[6:12], frame[26:30], alarm.WATCH_PORT, said)
            rules += packet_out(TO_CONTROLLER, port, answer)
        return rules

    def tell_the_truth(self):
        """To each protected device, where each of the others is."""
        for address, hardware in self.known.items():
            for other, other_hardware in self.known.items():
                if address != other and hardware and other_hardware:
                    told = arp(other_hardware, REPLY, hardware, address, other_hardware, other)
                    port = self.port_of.get(other_hardware, FLOOD)
                    for after_s in TOLD_AFTER_S:
                        self.later(after_s, packet_out(TO_CONTROLLER, port, told))


class Defence(Controller):
    """One switch, whose messages may also be sent later."""

    def __init__(self, protected, key):
        super().__init__(1, lambda: GuardedSwitch(protected, key, self.later))
        self.writer = None

    async def serve(self, reader, writer):
        self.writer = writer
        await super().serve(reader, writer)

    def later(self, after_s, data):
        writer = self.writer
        asyncio.get_running_loop().call_later(after_s, writer.write, data)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:6653", help="ADDRESS:PORT (default 127.0.0.1:6653)")
    parser.add_argument("--protect", required=True, help="protected addresses, with commas between")
    parser.add_argument("--key", required=True, help="shared with the watch")
    options = parser.parse_args()
    address, port = options.listen.rsplit(":", 1)
    defence = Defence(options.protect.split(","), options.key.encode())
    server = await asyncio.start_server(defence.serve, address, int(port))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
