"""Asks a plant as the engine does."""

from timeloom.plant import Session
from timeloom.wire import parse_line

STEP_NS = 10_000_000


class Engine:
    def __init__(self, plant, config, record=()):
        self.session = Session(plant)
        self.number = 0
        self.signals = self.ask(
            "init",
            protocol="timeloom-plant/1",
            config=config,
            t_ns=0,
            step_ns=STEP_NS,
            record=list(record),
            record_every_ns=STEP_NS,
            seed=0,
        )["signals"]

    def try_to(self, op, **what):
        self.number += 1
        line, _ = self.session.handle({"id": self.number, "op": op, **what})
        return parse_line(line)

    def ask(self, op, **what):
        answer = self.try_to(op, **what)
        assert "ok" in answer, answer
        return answer["ok"]

    def advance(self, to_ns):
        return self.ask("advance", to_ns=to_ns)

    def read(self, *names):
        return self.ask("read", signals=list(names))["values"]

    def write(self, **values):
        self.ask("write", values=values)
