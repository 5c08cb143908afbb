"""Captured packets of a run as an Arrow table. Called by :mod:`timeloom.results`, the interface for programs.

Files are read by python-pcapng, which keeps nanoseconds and comments; addresses are dpkt's. Packets are of a testbed
with attacks in it: a packet that dpkt cannot decode has no addresses, and keeps its bytes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dpkt
import pcapng
import pyarrow as pa

from . import run_files
from .run_directory import RunError

SCHEMA = pa.schema(
    {
        "t_virtual_ns": pa.int64(),
        "t_s": pa.float64(),
        "t_wall_ns": pa.int64(),
        "link": pa.string(),
        "length_bytes": pa.int64(),
        "protocol": pa.string(),
        "src": pa.string(),
        "dst": pa.string(),
        "src_port": pa.int64(),
        "dst_port": pa.int64(),
        "src_mac": pa.string(),
        "dst_mac": pa.string(),
        "note": pa.string(),
        "frame": pa.binary(),
    }
)

#: The comment of a packet: the time of its capture, and further remarks.
_COMMENT = re.compile(r"wall (\d+)\.(\d{9}) s(?:; (.*))?", re.DOTALL)


def packets(directory: Path, session_start_ns: int, links: Sequence[str] = ()) -> pa.Table:
    """Packets of the given links or of all, each link's in its order."""
    files = run_files.names(directory, "net", ".pcapng")
    for link in links:
        if link not in files:
            captured = ", ".join(files) or "none: a scenario asks for a capture by [[capture]]"
            raise KeyError(f"the link {link!r} was not captured; there are {captured}")
    rows = [row for link in links or files for row in _packets_of(directory, files[link], link, session_start_ns)]
    return pa.Table.from_pylist(rows, SCHEMA)


def _packets_of(directory: Path, name: str, link: str, session_start_ns: int) -> Iterator[dict[str, Any]]:
    with run_files.opened(directory, name) as file:
        blocks = iter(pcapng.FileScanner(file))
        while True:
            try:
                block = next(blocks, None)
            except pcapng.exceptions.TruncatedFile:
                return  # the run was killed while the last packet was being written
            except (pcapng.exceptions.PcapngException, ValueError) as error:
                raise RunError(f"{directory / name} cannot be read: {error}") from None
            if block is None:
                return
            if isinstance(block, pcapng.blocks.EnhancedPacket):
                yield _row(block, link, session_start_ns)


def _row(block: Any, link: str, session_start_ns: int) -> dict[str, Any]:
    # The block's own timestamp is a float, which cannot hold nanoseconds since 1970.
    ticks = (block.timestamp_high << 32) + block.timestamp_low
    t_ns = ticks * 1_000_000_000 // round(1 / block.timestamp_resolution) - session_start_ns
    comment = _COMMENT.fullmatch(block.options["opt_comment"]) if "opt_comment" in block.options else None
    return {
        "t_virtual_ns": t_ns,
        "t_s": t_ns / 1e9,
        "t_wall_ns": int(comment[1]) * 1_000_000_000 + int(comment[2]) if comment else None,
        "link": link,
        "length_bytes": block.packet_len,
        "note": comment[3] if comment else None,
        "frame": block.packet_data,
        **_addresses(block.packet_data),
    }


def _addresses(frame: bytes) -> dict[str, Any]:
    try:
        ethernet = dpkt.ethernet.Ethernet(frame)
    except (dpkt.UnpackError, IndexError, ValueError):
        return {}
    found: dict[str, Any] = {"src_mac": ethernet.src.hex(":"), "dst_mac": ethernet.dst.hex(":")}
    packet = ethernet.data
    if isinstance(packet, dpkt.arp.ARP):
        found |= {"protocol": "ARP", "src": _ip(packet.spa), "dst": _ip(packet.tpa)}
    elif isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
        found |= {"protocol": _protocol(packet.p), "src": _ip(packet.src), "dst": _ip(packet.dst)}
        if isinstance(packet.data, dpkt.tcp.TCP | dpkt.udp.UDP):
            found |= {"src_port": packet.data.sport, "dst_port": packet.data.dport}
    else:
        found["protocol"] = f"0x{ethernet.type:04x}"
    return found


def _ip(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


_PROTOCOLS = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}


def _protocol(number: int) -> str:
    return _PROTOCOLS.get(number, str(number))
