"""A plant on another machine, over TLS: each side shows a certificate signed by the other's
authority.

On the plant's machine (any that has Python; it need not be Linux)::

    python3 -m timeloom.remote serve --listen 0.0.0.0:5600 --ca ca.pem --cert plant.pem --key plant.key tank:Tank

In the scenario, in the place of the plant's own command::

    run = ["python3", "-m", "timeloom.remote", "reach", "plant.example:5600",
           "--ca", "ca.pem", "--cert", "run.pem", "--key", "run.key"]

The connection carries ``timeloom-plant/1`` unchanged: the engine sees a plant like any other. Each
run gets a new plant, in a process of its own, and there is one run at a time. Peers without a
certificate of the authority are refused.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import signal
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

from timeloom.plant import EXIT_BAD_PEER, EXIT_BUG, EXIT_OK, FD_VARIABLE, Plant, serve_connection
from timeloom.wire import emit_line

_CHUNK_BYTES = 1 << 16
HANDSHAKE_S = 10.0
"""How long a stranger may take to prove who it is."""

ENDING_S = 60.0
"""How long a plant may take to end."""


class RemoteError(Exception):
    """Reason why the two sides cannot connect, as text."""


def context(purpose: ssl.Purpose, ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.3 at least, with certificates of one authority on both sides.

    Raises:
        RemoteError: a file that cannot be read, a key that does not fit, or one that others may read.
    """
    try:
        others = stat.S_IMODE(key.stat().st_mode) & 0o077
        if others and os.name == "posix":
            raise RemoteError(f"{key}: others may read this key; chmod 600 {key}")
        made = ssl.create_default_context(purpose, cafile=str(ca))
        made.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise RemoteError(f"{ca}, {cert}, {key}: {error}") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    return made


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bytes:
    """Forwards all bytes until the end of ``source``; returns the last of them."""
    last = b""
    while chunk := await source.read(_CHUNK_BYTES):
        last = chunk
        sink.write(chunk)
        await sink.drain()
    return last


async def _relay(first: Ends, second: Ends) -> tuple[bool, bytes]:
    """Forwards bytes both ways until one side ends; returns true if the second did, and its last
    bytes.

    Raises:
        OSError: a side broke.
    """
    there = asyncio.create_task(_pass_on(first[0], second[1]))
    back = asyncio.create_task(_pass_on(second[0], first[1]))
    done, rest = await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
    for way in rest:
        way.cancel()
    for way in done:
        way.result()  # raises the error of the broken side
    return back in done, back.result() if back in done else b""


def _last_word(why: str) -> bytes:
    """Sends the protocol's final message for peers that are out of step."""
    return emit_line({"id": None, "error": {"message": why}})


async def reach(host: str, port: int, name: str, tls: ssl.SSLContext, wait_s: float) -> int:
    """Joins the inherited socket to a plant elsewhere; returns the exit code of the process."""
    text = os.environ.get(FD_VARIABLE, "")
    try:
        engine = await asyncio.open_connection(sock=socket.socket(fileno=int(text)))
    except (ValueError, OSError):
        raise RemoteError(f"{FD_VARIABLE}={text!r} is not a connected socket; the engine starts plants") from None
    end_s = asyncio.get_running_loop().time() + wait_s
    while True:
        try:
            plant = await asyncio.open_connection(
                host, port, ssl=tls, server_hostname=name, ssl_handshake_timeout=HANDSHAKE_S
            )
            break
        except ssl.SSLError as error:
            raise RemoteError(f"{host}:{port}: {error.reason or error}") from None
        except OSError as error:
            if asyncio.get_running_loop().time() > end_s:
                raise RemoteError(f"{host}:{port} is not there after {wait_s:g} s: {error}") from None
            await asyncio.sleep(0.2)
    try:
        ended, last = await _relay(engine, plant)
    except OSError as error:  # an SSLError, too: in TLS 1.3 a server refuses after the handshake
        raise RemoteError(f"{host}:{port}: {getattr(error, 'reason', None) or error}") from None
    for _, writer in (engine, plant):
        writer.close()
    if ended and not last:  # asyncio's servers refuse silently
        raise RemoteError(f"{host}:{port} ended without a word; it may not believe in this certificate")
    return EXIT_BUG if b'{"id":null,' in last else EXIT_OK


def _be_plant(make: Callable[[], Plant], connection: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(serve_connection(make(), connection))


class Server:
    """Gives each accepted peer a plant of its own, one at a time."""

    def __init__(self, make: Callable[[], Plant], tell: Callable[[str], None] = print):
        self._make, self._tell = make, tell
        self._busy = asyncio.Lock()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who = "%s:%d" % writer.get_extra_info("peername")[:2]
        if self._busy.locked():
            self._tell(f"{who}: turned away, since another run has the plant")
            writer.write(_last_word("another run has the plant"))
        else:
            async with self._busy:
                await self._one_run(who, (reader, writer))
        writer.close()

    async def _one_run(self, who: str, run: Ends) -> None:
        self._tell(f"{who}: a run begins")
        ours, theirs = socket.socketpair()
        # Spawned, not forked: the process must inherit nothing of this one but its end of the pair.
        process = get_context("spawn").Process(target=_be_plant, args=(self._make, theirs), daemon=True)
        process.start()
        theirs.close()
        plant = await asyncio.open_connection(sock=ours)
        try:
            await _relay(run, plant)
        except OSError as error:
            self._tell(f"{who}: {error}")
        plant[1].close()  # the end of the stream ends the plant
        await asyncio.get_running_loop().run_in_executor(None, process.join, ENDING_S)
        process.kill()
        process.join()
        if process.exitcode != EXIT_OK:
            run[1].write(_last_word(f"the plant ended with exit code {process.exitcode}"))
        self._tell(f"{who}: the run is over, the plant ended with exit code {process.exitcode}")


async def serve(make: Callable[[], Plant], host: str, port: int, tls: ssl.SSLContext) -> None:
    """Serves plants forever. ``make`` must be importable by its name: a class, or a function of a
    module."""
    server = await asyncio.start_server(
        Server(make, lambda text: print(text, file=sys.stderr, flush=True)).handle,
        host, port, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S,
    )  # fmt: skip
    address = "%s:%d" % server.sockets[0].getsockname()[:2]
    print(f"listening on {address}", flush=True)
    async with server:
        await server.serve_forever()


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _plant(text: str) -> Callable[[], Plant]:
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODULE:CLASS: {error}") from None
    if not callable(found):
        raise argparse.ArgumentTypeError(f"{text!r} is nothing that can be called")
    return found  # type: ignore[no-any-return]


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    what = "A plant on another machine, over TLS."
    parser = argparse.ArgumentParser(prog="python3 -m timeloom.remote", description=what)
    sides = parser.add_subparsers(dest="side", required=True)
    serving = sides.add_parser("serve", help="be a plant for runs elsewhere, one after the other")
    serving.add_argument("--listen", type=_address, required=True, metavar="HOST:PORT")
    serving.add_argument("plant", type=_plant, metavar="MODULE:CLASS", help="looked for in this directory first")
    reaching = sides.add_parser("reach", help="command that a scenario runs in place of the plant")
    reaching.add_argument("address", type=_address, metavar="HOST:PORT")
    reaching.add_argument("--name", help="name in the peer's certificate, if not HOST")
    reaching.add_argument("--wait-s", type=float, default=30.0, help="time limit for the plant to listen (%(default)s)")
    for side in (serving, reaching):
        side.add_argument("--ca", type=Path, required=True, help="certificate of the authority (PEM)")
        side.add_argument("--cert", type=Path, required=True, help="one's own certificate (PEM)")
        side.add_argument("--key", type=Path, required=True, help="its key (PEM), readable for its owner only")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    try:
        if given.side == "serve":
            tls = context(ssl.Purpose.CLIENT_AUTH, given.ca, given.cert, given.key)
            host, port = given.listen
            asyncio.run(serve(given.plant, host, port, tls))
            return EXIT_OK
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for every plant
        tls = context(ssl.Purpose.SERVER_AUTH, given.ca, given.cert, given.key)
        host, port = given.address
        return asyncio.run(reach(host, port, given.name or host, tls, given.wait_s))
    except (RemoteError, OSError) as error:
        print(f"timeloom.remote: {error}", file=sys.stderr)
        return EXIT_BAD_PEER if given.side == "serve" else EXIT_BUG
    except KeyboardInterrupt:
        return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
