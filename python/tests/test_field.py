"""The field devices of ``examples/field``: each pair really runs, in virtual time, over its protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import recorded
from timeloom import modbus
from timeloom.results import Run
from worlds import ROOT

FIELD = ROOT / "examples" / "field"
LIMIT_A, WAIT_S = 5.0, 3.0


@pytest.mark.parametrize(
    ("protocol", "port", "duration"),
    [("modbus", 502, "60 s"), ("dnp3", 20000, "60 s"), ("iec104", 2404, "20 s"), ("opcua", 4840, "120 s")],
)
def test_a_station_switches_the_breaker_over_its_protocol(
    tmp_path: Path, protocol: str, port: int, duration: str
) -> None:
    """Above its limit it opens the breaker, and closes it after a delay by its own clock, which is
    virtual."""
    station = [f"{protocol}_station.py", "10.0.0.2", str(LIMIT_A), str(WAIT_S)]
    command = f"system.hosts.station.programs.station.run={['../../.venv/bin/python', '-u', *station]}".replace(
        "'", '"'
    )
    sets = ["--set", f"time.duration={duration}", "--set", command]
    made = recorded.run(FIELD / f"{protocol}.toml", tmp_path / "run", *sets)
    assert made.returncode == 0, made.stdout + made.stderr
    run = Run(tmp_path / "run")

    # Each log by itself: an order that does not depend on timestamps.
    device, station = (list(run.logs(name)["text"]) for name in ("device", "station"))
    switched = [line for line in device if line.startswith("breaker")]
    assert switched[:2] == ["breaker open", "breaker closed"], device

    opened = station.index(f"above {LIMIT_A:.0f} A: open")
    [*_, last] = [float(line.split()[1]) for line in station[:opened]]
    assert last >= LIMIT_A, "the log has milliamperes: what is above by less is equal there"
    again, waited_s = next(
        (place, float(line.split()[-2])) for place, line in enumerate(station) if line.startswith("close again")
    )
    assert again > opened and waited_s >= WAIT_S, "by the station's own clock"
    assert "current 0.000 A" in station[opened:again], "an open breaker lets nothing through"

    ports = run.packets()[["src_port", "dst_port"]]
    assert (ports == port).any(axis=1).sum() > 10, f"nothing went over port {port}"


def test_a_device_reports_writes_to_its_program_and_refuses_the_rest(
    modbus_server: tuple[int, list[tuple[str, float]]],
) -> None:
    port, told = modbus_server
    with modbus.Client("127.0.0.1", port) as device:
        assert device.read_floats(0, 2) == [1.5, -2.0]
        assert device.read_float(2) == -2.0
        device.write_float(10, 7.25)
        device.write_coil(3, True)
        assert device.read_coil(3) and not device.read_coil(4)
        assert told == [("float", 7.25), ("coil", True)]
        for refused in (
            lambda: device.read_float(4),
            lambda: device.write_float(0xFFFE, 1.0),
            lambda: device.write_coil(0xFFFF, True),
            lambda: device.write_float(10, math.nan),
        ):
            with pytest.raises(modbus.ModbusError, match="refuses"):
                refused()
        assert len(told) == 2, "what is refused is not told"
        assert device.read_float(0) == 1.5, "the connection is as it was"


def test_a_device_that_is_not_there_is_named() -> None:
    with (
        modbus.Client("127.0.0.1", 1, timeout_s=0.2) as device,
        pytest.raises(modbus.ModbusError, match=r"127\.0\.0\.1:1"),
    ):
        device.read_float(0)


@pytest.fixture
def modbus_server() -> Iterator[tuple[int, list[tuple[str, float]]]]:
    """A device in a thread: its port, and the values written to it."""
    import asyncio
    import threading

    told: list[tuple[str, float]] = []
    server = modbus.Server(
        inputs={0: lambda: 1.5, 2: lambda: -2.0},
        on_float={10: lambda value: told.append(("float", value))},
        on_coil={3: lambda on: told.append(("coil", on))},
        coils={4: False},
        host="127.0.0.1",
        port=0,
    )
    listening = threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve_async(listening.set))

    def serve() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        finally:
            loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert listening.wait(60), "it never listened"
    yield server.port, told
    loop.call_soon_threadsafe(task.cancel)
    thread.join(60)
    assert not thread.is_alive()
