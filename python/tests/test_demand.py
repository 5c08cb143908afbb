"""scripts/demand: the present flows at each time, and the count of the sink's reports."""

import importlib.machinery
import importlib.util
import json
import tomllib
import types
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/demand"


@pytest.fixture(scope="module")
def demand():
    loader = importlib.machinery.SourceFileLoader("demand", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("demand", loader))
    loader.exec_module(module)
    return module


OPTIONS = types.SimpleNamespace(hosts=4, step=2, rate=100, udp=False, dilation=5)


def test_flows_double_with_each_step_and_last_to_the_end(demand):
    flows = demand.steps(64)
    assert flows == [1, 2, 4, 8, 16, 32, 64]
    assert [demand.begins(flow, flows) for flow in (0, 1, 2, 3, 4, 63)] == [
        (0, 7),
        (1, 6),
        (2, 5),
        (2, 5),
        (3, 4),
        (6, 1),
    ]


def test_of_each_step_the_second_half_is_counted(demand):
    def sink(rate, steps):
        """The report of iperf3's server for a flow of this rate in Mbit/s that lasts for this many
        steps."""
        halves = range(int(steps * OPTIONS.step / 0.5))
        sums = [{"start": n / 2, "end": (n + 1) / 2, "bits_per_second": rate * 1e6} for n in halves]
        return "listening\n" + json.dumps({"intervals": [{"sum": one} for one in sums]})

    texts = [sink(100, 3), sink(50, 2), "", sink(10, 1)]
    got = demand.received(texts, demand.steps(4), OPTIONS)
    assert got == pytest.approx([100, 150, 160])


def test_each_host_of_the_first_tree_sends_to_one_of_the_second(demand):
    plan = tomllib.loads(demand.scenario(OPTIONS, "engines-dilated"))
    assert plan["time"] == {"duration": "12 s", "dilation": 5}
    assert len(plan["system"]["switches"]) == 6
    # A tree has one cable fewer than nodes.
    assert len(plan["system"]["links"]) == 6 + 8 - 1
    starts = [plan["system"]["hosts"][f"ah{n}"]["programs"][0]["start"] for n in range(1, 5)]
    assert starts == ["3 s", "5 s", "7 s", "7 s"]
    asked = [plan["system"]["hosts"][f"ah{n}"]["programs"][0]["run"][2] for n in range(1, 5)]
    assert asked == ["10.0.2.1", "10.0.2.2", "10.0.2.3", "10.0.2.4"]


def test_trees_of_open_vswitch_are_joined_by_a_simulated_network(demand):
    options = types.SimpleNamespace(**{**vars(OPTIONS), "udp": True})
    plan = tomllib.loads(demand.scenario(options, demand.OPENFLOW))
    switches = plan["system"]["openflow"]["switches"]
    assert sorted([*switches, "core"]) == sorted(plan["system"]["switches"])
    joints = [link["between"] for link in plan["system"]["links"] if "core" in link["between"]]
    assert joints == [["as1", "core"], ["core", "bs1"]]
    assert plan["network"]["engines"] == {"count": 2}
    sources = [plan["system"]["hosts"][f"ah{n}"]["programs"][0]["run"] for n in range(1, 5)]
    assert ["--udp" in run for run in sources] == [False, True, False, True]
    assert Path(plan["system"]["openflow"]["controller"]["run"][2]).exists()


def test_a_line_of_a_log_without_its_stamp(demand):
    assert demand.said('[    9.488029] {"a": [1] }') == '{"a": [1] }'
