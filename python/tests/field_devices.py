"""Modbus/TCP devices on the loopback, written from the Modbus specification rather than with the
library that the programs use: a mistake of the library would otherwise cancel out."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable

READ_INPUT, WRITE_HOLDING = 4, 16


class Device:
    """Serves float32 values, high word first: ``inputs()`` to read, ``written`` collects set points."""

    def __init__(self, inputs: Callable[[], list[float]] = list):
        self.written: list[tuple[float, ...]] = []
        device = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while len(header := self.rfile.read(7)) == 7:
                    transaction, _, length, unit = struct.unpack(">HHHB", header)
                    pdu = device.answer(self.rfile.read(length - 1), inputs)
                    self.wfile.write(struct.pack(">HHHB", transaction, 0, len(pdu) + 1, unit) + pdu)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, pdu: bytes, inputs: Callable[[], list[float]]) -> bytes:
        function, start, count = struct.unpack(">BHH", pdu[:5])
        if function == READ_INPUT:
            block = b"".join(struct.pack(">f", value) for value in inputs())[2 * start : 2 * (start + count)]
            if len(block) == 2 * count:
                return bytes([function, len(block)]) + block
        elif function == WRITE_HOLDING and start == 0 and len(pdu) == 6 + 2 * count:
            self.written.append(struct.unpack(f">{count // 2}f", pdu[6:]))
            return pdu[:5]
        return bytes([function | 0x80, 2])  # illegal data address

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
