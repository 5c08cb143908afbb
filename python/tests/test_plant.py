"""The protocol, over a real socket and a real process."""

import json
import time

import pytest

from timeloom.client import PlantFailed, PlantProcess
from timeloom.plant import EXIT_BAD_PEER, EXIT_BUG, EXIT_OK, FD_VARIABLE
from timeloom.wire import LINE_LIMIT_BYTES, PROTOCOL
from worlds import MS, Here, Tank, tank_process


@pytest.fixture
def tank():
    with tank_process() as plant:
        yield plant


def raw(plant: PlantProcess, data: bytes) -> dict:
    plant.socket.sendall(data)
    return json.loads(plant._replies.readline())


def test_a_session(tank: PlantProcess):
    ready = tank.init({}, record=["level"], record_every_ns=100 * MS, step_ns=10 * MS)
    assert ready["name"] == "tank"
    assert {"name": "inflow", "unit": "m/s", "writable": True} in ready["signals"]
    tank.write({"inflow": 2.0})
    reply = tank.advance(250 * MS)
    assert reply["t_ns"] == 250 * MS and reply["solve_ns"] > 0
    assert [sample["t_ns"] for sample in reply["samples"]] == [0, 100 * MS, 200 * MS]
    assert [sample["values"][0] for sample in reply["samples"]] == pytest.approx([1.0, 1.2, 1.4])
    assert tank.read(["level", "steps"]) == pytest.approx([1.5, 25])
    assert tank.stop() == EXIT_OK


def test_requests_may_be_pipelined(tank: PlantProcess):
    lines = [{"id": 5, "op": "init", "protocol": PROTOCOL, "step_ns": MS}]
    lines += [{"id": 6 + n, "op": "advance", "to_ns": n * MS} for n in range(200)]
    tank.socket.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    answers = [json.loads(tank._replies.readline()) for _ in lines]
    assert [answer["id"] for answer in answers] == [line["id"] for line in lines]
    assert answers[-1]["ok"]["t_ns"] == 199 * MS


def test_advancing_to_the_same_instant_does_nothing_and_backwards_is_refused(tank: PlantProcess):
    tank.init({}, step_ns=10 * MS)
    tank.advance(15 * MS)
    tank.advance(15 * MS)
    assert tank.read(["steps"]) == [2]  # to 10 ms and to 15 ms
    with pytest.raises(PlantFailed, match="backwards"):
        tank.advance(15 * MS - 1)
    assert tank.advance(20 * MS)["t_ns"] == 20 * MS


def test_a_run_may_start_late(tank: PlantProcess):
    tank.init({}, t_ns=95 * MS, record=["level"], record_every_ns=50 * MS)
    samples = tank.advance(150 * MS)["samples"]
    assert [sample["t_ns"] for sample in samples] == [95 * MS, 100 * MS, 150 * MS]


@pytest.mark.parametrize(
    ("op", "arguments", "message", "signal"),
    [
        ("read", {"signals": ["level", "nobody"]}, "no such signal", "nobody"),
        ("read", {"signals": "level"}, "list", None),
        ("read", {}, "list", None),
        ("write", {"values": {"nobody": 1}}, "no such signal", "nobody"),
        ("write", {"values": {"level": 1}}, "not writable", "level"),
        ("write", {"values": {"inflow": "1"}}, "finite number", "inflow"),
        ("write", {"values": {"inflow": True}}, "finite number", "inflow"),
        ("write", {"values": {"inflow": 10**400}}, "finite number", "inflow"),
        ("write", {"values": {"inflow": None}}, "finite number", "inflow"),
        ("write", {"values": [1]}, "object", None),
        ("advance", {"to_ns": 1.5}, "integer", None),
        ("advance", {"to_ns": -1}, "integer", None),
        ("advance", {"to_ns": 2**63}, "integer", None),
        ("advance", {}, "integer", None),
        ("explode", {}, "unknown op", None),
        ("init", {"protocol": PROTOCOL, "step_ns": 1}, "once", None),
    ],
)
def test_a_wrong_request_is_answered_and_changes_nothing(tank, op, arguments, message, signal):
    tank.init({})
    line = json.dumps({"id": 77, "op": op, **arguments}).encode() + b"\n"
    reply = raw(tank, line)
    assert reply["id"] == 77 and message in reply["error"]["message"]
    assert reply["error"].get("signal") == signal
    assert tank.read(["level", "inflow", "steps"]) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "timeloom-plant/2"}, "speaks timeloom-plant/1"),
        ({"step_ns": 0}, "step_ns"),
        ({"config": []}, "config"),
        ({"config": {"slowdown_ns": -1}}, "slowdown_ns"),
        ({"record": ["nobody"], "record_every_ns": 1}, "no such signal"),
        ({"record": ["level"]}, "record_every_ns"),
        ({"seed": "7"}, "seed"),
    ],
)
def test_a_wrong_init_is_answered_and_may_be_mended(tank: PlantProcess, change, message):
    good = {"id": 1, "op": "init", "protocol": PROTOCOL, "step_ns": 1}
    reply = raw(tank, json.dumps(good | change).encode() + b"\n")
    assert message in reply["error"]["message"]
    assert "ok" in raw(tank, json.dumps(good).encode() + b"\n")


def test_init_comes_first(tank: PlantProcess):
    with pytest.raises(PlantFailed, match="init comes first"):
        tank.advance(1)


@pytest.mark.parametrize("line", [b"hello\n", b'{"id":1,"op":NaN}\n', b"x" * (LINE_LIMIT_BYTES + 1)])
def test_a_line_that_is_no_message_ends_the_connection(tank: PlantProcess, line: bytes):
    assert raw(tank, line)["id"] is None
    assert tank.process.wait(timeout=120) == EXIT_BAD_PEER


def test_a_model_that_gives_nan_is_an_error_that_names_the_signal(tank: PlantProcess):
    tank.init({})
    tank.write({"inflow": 1e308})
    tank.advance(20_000 * MS)  # the level overflows to infinity
    with pytest.raises(PlantFailed, match="level") as caught:
        tank.read(["steps", "level"])
    assert caught.value.signal == "level"


def test_the_end_of_the_stream_ends_the_plant(tank: PlantProcess):
    tank.init({})
    tank.socket.shutdown(1)
    assert tank.process.wait(timeout=120) == EXIT_OK


def test_a_crash_is_seen_as_the_end_of_the_stream(tank: PlantProcess):
    tank.init({})
    tank.write({"inflow": 666})
    with pytest.raises(PlantFailed, match="exit code 42"):
        tank.advance(MS)


def test_a_failure_on_the_way_stops_the_run_and_reports_the_reason(tank: PlantProcess):
    tank.init({})
    tank.write({"inflow": 667})
    with pytest.raises(PlantFailed, match="the tank bursts"):
        tank.advance(MS)
    with pytest.raises(PlantFailed, match="failed before: the tank bursts"):
        tank.advance(2 * MS)
    assert tank.stop() == EXIT_OK


def test_a_bug_is_answered_before_the_process_ends(tank: PlantProcess):
    tank.init({})
    tank.write({"inflow": 668})
    with pytest.raises(PlantFailed, match="RuntimeError: a bug"):
        tank.advance(MS)
    assert tank.process.wait(timeout=120) == EXIT_BUG


def test_more_samples_than_a_reply_holds_are_refused_before_moving(tank: PlantProcess):
    tank.init({}, record=["level"] * 10, record_every_ns=MS)
    with pytest.raises(PlantFailed, match="in pieces"):
        tank.advance(60_000 * MS)
    assert len(tank.advance(3_000 * MS)["samples"]) == 3001


def test_an_answer_beyond_the_limit_is_an_error_that_the_plant_survives(tank: PlantProcess):
    tank.init({"level_m": 0.12345678901234567})
    with pytest.raises(PlantFailed, match="fewer signals"):
        tank.read(["level"] * 60_000)
    assert tank.read(["steps"]) == [0]


def test_slowdown_costs_real_time_only_where_there_is_work(tank: PlantProcess):
    tank.init({"slowdown_ns": 30 * MS})
    began = time.monotonic()
    reply = tank.advance(MS)
    assert time.monotonic() - began >= 0.03 and reply["solve_ns"] >= 30 * MS
    # A busy machine may take as long by itself, but not each time.
    assert any(tank.advance(MS)["solve_ns"] < 30 * MS for _ in range(20))


def test_the_seed_decides_and_nothing_else():
    draw = [Here(Tank(), seed=seed).read(["chance"])[0] for seed in (7, 7, 8)]
    assert draw[0] == draw[1] != draw[2]


def test_without_an_engine_a_plant_says_so(capfd):
    with tank_process() as plant:
        plant.process.kill()
    with PlantProcess(
        plant.process.args[:1]
        + [
            "-c",
            f"import os; os.environ['{FD_VARIABLE}'] = 'x'\n"
            "from worlds import Tank\nfrom timeloom.plant import serve\nserve(Tank())",
        ],
        {"PYTHONPATH": _paths()},
    ) as stray:
        assert stray.process.wait(timeout=120) == EXIT_BAD_PEER
    assert "the engine starts plants" in capfd.readouterr().err


def _paths() -> str:
    from worlds import PYTHON

    return f"{PYTHON}:{PYTHON / 'tests'}"
