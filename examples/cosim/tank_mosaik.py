"""A mosaik world of a water tank and a run of Timeloom: see tank.toml.

usage: tank_mosaik.py TIMELOOM [--session tank] [--hang-at SECONDS]
"""

import argparse
import sys
import time

import mosaik
import mosaik_api_v3

STEPS_S = 0.05
AREA_M2 = 2.0
META = {
    "api_version": "3.0",
    "type": "time-based",
    "models": {"Tank": {"public": True, "params": [], "attrs": ["level", "inflow"]}},
}


class TankSimulator(mosaik_api_v3.Simulator):
    def __init__(self):
        super().__init__(META)
        self.level_m = 1.0

    def init(self, sid, time_resolution=1.0, hang_at=float("inf")):
        self.step_s, self.hang_at = time_resolution, hang_at
        return self.meta

    def create(self, num, model):
        return [{"eid": "tank", "type": model}]

    def step(self, at, inputs, max_advance):
        if at * self.step_s >= self.hang_at:
            time.sleep(3600)
        (inflow,) = inputs["tank"]["inflow"].values()
        self.level_m += (inflow - 0.1 * self.level_m**0.5) / AREA_M2 * self.step_s
        return at + 1

    def get_data(self, outputs):
        return {"tank": {"level": self.level_m}}


parser = argparse.ArgumentParser(description="A mosaik world of a water tank and a run of Timeloom.")
parser.add_argument("timeloom", help="the program timeloom")
parser.add_argument("--session", default="tank", help="name of the run")
parser.add_argument("--exchange", default="tank", help="name of its exchange")
parser.add_argument("--seconds", type=float, default=20.0)
parser.add_argument("--patience", type=float, default=60.0, help="how long the bridge waits for mosaik, in s")
parser.add_argument("--hang-at", type=float, default=float("inf"), help="stop answering, to see who notices")
options = parser.parse_args()

if __name__ == "__main__":
    simulators = {
        "Timeloom": {"cmd": f"{options.timeloom} bridge mosaik %(addr)s"},
        "Tank": {"python": "__main__:TankSimulator"},
    }
    with mosaik.World(simulators, time_resolution=STEPS_S) as world:
        run = world.start(
            "Timeloom",
            exchange=options.exchange,
            session=options.session,
            step_s=STEPS_S,
            patience_s=options.patience,
        ).Run()
        tank = world.start("Tank", hang_at=options.hang_at).Tank()
        world.connect(tank, run, "level")
        world.connect(run, tank, "inflow", time_shifted=True, initial_data={"inflow": 0.1})
        world.run(until=round(options.seconds / STEPS_S), print_progress=False)
    sys.exit(0)
