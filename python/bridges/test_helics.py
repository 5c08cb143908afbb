"""A plant that is a HELICS federation: the real broker, and another federate in a process of its own."""

import socket
import subprocess
import sys

import helics as h
import pytest
from engine import STEP_NS, Engine

from timeloom.helics import Federation

# Publishes its time and twice its input, with ten times the plant's step; behaves differently at
# 0.5 s.
OTHER = """
import os, sys, time, helics as h
info = h.helicsCreateFederateInfo()
h.helicsFederateInfoSetCoreTypeFromString(info, "zmq")
h.helicsFederateInfoSetCoreInitString(info, "--federates=1 --brokerport=" + sys.argv[1])
h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_PERIOD, 0.1)
federate = h.helicsCreateValueFederate("grid", info)
now = h.helicsFederateRegisterGlobalPublication(federate, "grid/now", h.HELICS_DATA_TYPE_DOUBLE, "s")
twice = h.helicsFederateRegisterGlobalPublication(federate, "grid/twice", h.HELICS_DATA_TYPE_DOUBLE, "kW")
heard = h.helicsFederateRegisterSubscription(federate, "plc/power", "kW")
h.helicsFederateEnterExecutingMode(federate)
at = 0.0
while at < 60.0:
    at = h.helicsFederateRequestTime(federate, at + 0.1)
    h.helicsPublicationPublishDouble(now, at)
    h.helicsPublicationPublishDouble(twice, 2 * h.helicsInputGetDouble(heard))
    if at > 0.45 and sys.argv[2] == "hangs":
        time.sleep(1000)
    if at > 0.45 and sys.argv[2] == "dies":
        os.kill(os.getpid(), 9)
"""


def free_port():
    """Two adjacent ports without a listener: HELICS takes both."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Others:
    """A broker, and perhaps the other federate."""

    def __init__(self, what):
        self.port = free_port()
        self.broker = h.helicsCreateBroker("zmq", "", f"--federates=2 --port={self.port} --loglevel=no_print")
        self.process = None
        if what is not None:
            self.process = subprocess.Popen([sys.executable, "-c", OTHER, str(self.port), what])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        h.helicsBrokerDestroy(self.broker)


def config(others, patience_s):
    return {
        "core_init": f"--federates=1 --brokerport={others.port}",
        "subscribe": {
            "now": {"key": "grid/now", "unit": "s", "initial": -1.0},
            "twice": {"key": "grid/twice", "unit": "kW"},
        },
        "publish": {"power": {"key": "plc/power", "unit": "kW", "initial": 3.0}},
        "patience_s": patience_s,
    }


def test_values_cross_and_the_federation_stands_with_the_run():
    with Others("works") as others:
        engine = Engine(Federation(), config(others, 120.0), ["now"])
        assert [(s["name"], s["unit"], s["writable"]) for s in engine.signals] == [
            ("now", "s", False),
            ("twice", "kW", False),
            ("power", "kW", True),
        ]
        assert engine.read("now", "power") == [-1.0, 3.0]
        samples = engine.advance(250_000_000)["samples"]
        assert [s["t_ns"] for s in samples] == list(range(0, 250_000_001, STEP_NS))
        now, twice = engine.read("now", "twice")
        # Whatever the delay: the other is not beyond the run, nor a period behind.
        assert 0.1 <= now <= 0.25
        assert twice == 6.0
        engine.write(power=5.0)
        engine.advance(480_000_000)
        assert engine.read("twice") == [10.0]
        assert engine.ask("stop") == {}
        engine.session._plant.close()


@pytest.mark.parametrize("what", ["hangs", "dies"])
def test_a_federate_that_keeps_the_federation_waiting_is_named(what):
    with Others(what) as others:
        engine = Engine(Federation(), config(others, 20.0))
        answer = engine.try_to("advance", to_ns=1_000_000_000)
        message = answer["error"]["message"]
        assert "grid" in message, message


def test_a_federate_that_never_joins_ends_the_wait():
    with Others(None) as others, pytest.raises(AssertionError, match="did not begin within 2.0 s"):
        Engine(Federation(), config(others, 2.0))
