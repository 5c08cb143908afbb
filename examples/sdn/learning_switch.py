"""A small OpenFlow 1.3 controller: every switch learns where addresses are, as an ordinary one does.

For each switch that connects it keeps a table of addresses and ports. A frame that no rule of the switch
matches comes here; once both of its addresses are known, a rule for them goes to the switch, and the next frames
do not come here any more.

With --switches-flood a switch floods frames for all by itself (questions for addresses, above all), so that in a
tree of many switches they do not wait for this program at each. The first of each sender comes here as well, to learn.

Its clock is that of the experiment: when the testbed stands, it stands as well.
"""

import argparse
import asyncio
import struct

VERSION = 4  # on the wire, OpenFlow 1.3
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 1, 2, 3, 5, 6
PACKET_IN, PACKET_OUT, FLOW_MOD = 10, 13, 14

TO_CONTROLLER, FLOOD = 0xFFFFFFFD, 0xFFFFFFFB
NO_BUFFER, ANY, WHOLE_FRAME = 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF
OXM_BASIC, OXM_IN_PORT, OXM_ETH_DST, OXM_ETH_SRC, OXM_ETH_TYPE = 0x8000, 0, 3, 4, 5
HEADER = struct.Struct("!BBHI")
MANY = bytes([1, 0, 0, 0, 0, 0])  # the bit of an address that says so
LONGEST = 1 << 16  # the length field has 16 bits


class Malformed(Exception):
    """A switch said something that OpenFlow 1.3 does not allow."""


def message(kind, body=b"", xid=0):
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), xid) + body


def padded(data):
    return data + bytes(-len(data) % 8)


def match(in_port=None, source=None, destination=None, ether_type=None):
    """An OXM match on those fields that are given (OpenFlow 1.3.5, section 7.2.2). MANY is a destination, too."""
    fields = b""
    if destination is MANY:
        destination = None
        fields = struct.pack("!HBB", OXM_BASIC, OXM_ETH_DST << 1 | 1, 2 * len(MANY)) + MANY + MANY
    for number, value in (
        (OXM_IN_PORT, None if in_port is None else struct.pack("!I", in_port)),
        (OXM_ETH_DST, destination),
        (OXM_ETH_SRC, source),
        (OXM_ETH_TYPE, None if ether_type is None else struct.pack("!H", ether_type)),
    ):
        if value is not None:
            fields += struct.pack("!HBB", OXM_BASIC, number << 1, len(value)) + value
    return padded(struct.pack("!HH", 1, 4 + len(fields)) + fields)


def output(port):
    return struct.pack("!HHIH6x", 0, 16, port, WHOLE_FRAME)


def flow(priority, to_match, *ports):
    """FLOW_MOD that adds a rule: what matches leaves through these ports, or is dropped where there is none."""
    action = b"".join(output(port) for port in ports)
    instruction = action and struct.pack("!HH4x", 4, 8 + len(action)) + action  # apply actions
    fixed = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, 0, 0, 0, priority, NO_BUFFER, ANY, ANY, 0)
    return message(FLOW_MOD, fixed + to_match + instruction)


def packet_out(in_port, port, frame):
    action = output(port)
    return message(PACKET_OUT, struct.pack("!IIH6x", NO_BUFFER, in_port, len(action)) + action + frame)


def parse_packet_in(body):
    """Returns the port at which a frame came in, and the frame."""
    if len(body) < 24:
        raise Malformed("PACKET_IN of %d bytes" % len(body))
    kind, length = struct.unpack_from("!HH", body, 16)
    fields = body[20 : 16 + length]
    frame = body[16 + length + (-length % 8) + 2 :]
    if kind != 1 or length < 4 or len(fields) != length - 4:
        raise Malformed("PACKET_IN without a match")
    while len(fields) >= 4:
        oxm_class, number, size = struct.unpack_from("!HBB", fields)
        if oxm_class == OXM_BASIC and number >> 1 == OXM_IN_PORT and size == 4 and len(fields) >= 8:
            return struct.unpack_from("!I", fields, 4)[0], frame
        fields = fields[4 + size :]
    raise Malformed("PACKET_IN that does not say the port")


class Switch:
    """What is known of one switch. `handle` takes a message and returns the answers."""

    def __init__(self):
        self.datapath = None
        self.port_of = {}

    def handle(self, kind, xid, body):
        if kind == ECHO_REQUEST:
            return message(ECHO_REPLY, body, xid)
        if kind == FEATURES_REPLY:
            if len(body) < 8:
                raise Malformed("FEATURES_REPLY of %d bytes" % len(body))
            self.datapath = struct.unpack_from("!Q", body)[0]
            return flow(0, match(), TO_CONTROLLER)
        if kind == PACKET_IN:
            return self.forward(*parse_packet_in(body))
        if kind == ERROR:
            print("switch %s refuses: %s" % (self.datapath, body[:4].hex()))
        return b""

    def forward(self, in_port, frame):
        if len(frame) < 14:
            raise Malformed("a frame of %d bytes" % len(frame))
        destination, source = frame[:6], frame[6:12]
        if not source[0] & 1:
            self.port_of[source] = in_port
        port = self.port_of.get(destination)
        if port is None:
            return packet_out(in_port, FLOOD, frame)
        if port == in_port:
            return b""
        rule = flow(1, match(in_port, source, destination), port)
        return rule + packet_out(in_port, port, frame)


class FloodingSwitch(Switch):
    """A switch that floods by itself what is for all."""

    def handle(self, kind, xid, body):
        answer = super().handle(kind, xid, body)
        if kind == FEATURES_REPLY:
            answer += flow(2, match(destination=MANY), FLOOD, TO_CONTROLLER)
        return answer

    def forward(self, in_port, frame):
        if len(frame) < 14 or not frame[0] & 1:
            return super().forward(in_port, frame)
        source = frame[6:12]
        if source[0] & 1 or self.port_of.get(source) == in_port:
            return b""
        self.port_of[source] = in_port
        # The packet was flooded. Further packets of this sender do not reach the controller.
        return flow(3, match(in_port, source, MANY), FLOOD)


class Controller:
    def __init__(self, expected, switch=Switch):
        self.expected = expected
        self.switch = switch
        self.connected = set()

    async def serve(self, reader, writer):
        switch = self.switch()
        writer.write(message(HELLO) + message(FEATURES_REQUEST))
        try:
            while True:
                version, kind, length, xid = HEADER.unpack(await reader.readexactly(HEADER.size))
                if not HEADER.size <= length < LONGEST or (version != VERSION and kind != HELLO):
                    raise Malformed("version %d, length %d" % (version, length))
                writer.write(switch.handle(kind, xid, await reader.readexactly(length - HEADER.size)))
                await writer.drain()
                if kind == FEATURES_REPLY:
                    self.welcome(switch.datapath)
        except (asyncio.IncompleteReadError, ConnectionError):
            print("switch %s left" % switch.datapath)
        except Malformed as error:
            print("switch %s: %s; its connection is closed" % (switch.datapath, error))
        finally:
            self.connected.discard(switch.datapath)
            writer.close()

    def welcome(self, datapath):
        self.connected.add(datapath)
        print("switch %d connected" % datapath)
        if len(self.connected) == self.expected:
            print("all %d switches connected" % self.expected)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:6653", help="ADDRESS:PORT (default 127.0.0.1:6653)")
    parser.add_argument("--switches", type=int, default=1, help="say so when that many are connected")
    parser.add_argument("--switches-flood", action="store_true", help="what is for all does not wait for us")
    options = parser.parse_args()
    switch = FloodingSwitch if options.switches_flood else Switch
    address, port = options.listen.rsplit(":", 1)
    server = await asyncio.start_server(Controller(options.switches, switch).serve, address, int(port))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
