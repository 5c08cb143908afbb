"""The tank of plant.toml as a Gymnasium environment: the agent sets the inflow and sees the level, twice a second.

    make .venv/ready
    PATH=$PATH:target/release .venv/bin/python examples/hello/tank_env.py      # as root, for the network

Time stands while the agent thinks, so that a slow one does no worse than a fast one.
"""

import os
import tempfile
from pathlib import Path

import gymnasium
import numpy as np

from timeloom.gym import VirtualTimeEnv

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class TankEnv(VirtualTimeEnv):
    observation_space = gymnasium.spaces.Box(0.0, 10.0, (1,))  # level [m]
    action_space = gymnasium.spaces.Box(0.0, 0.3, (1,))  # inflow [m3/s]

    def __init__(self, wanted_m=1.5, duration="30 s", timeloom=None):
        self.wanted_m = wanted_m
        timeloom = timeloom or os.environ.get("TIMELOOM_BINARY", "timeloom")
        self._runs = tempfile.TemporaryDirectory(prefix="tank-env-")
        operator = [str(ROOT / ".venv" / "bin" / "python"), "-u", "gym_operator.py", "10.0.0.10"]
        sets = {
            "time.mode": "stepped",
            "time.duration": duration,
            "seed": "{seed}",
            "system.hosts.operator.programs.keep-level.run": str(operator).replace("'", '"'),
            "system.hosts.operator.programs.keep-level.env": '{ PYTHONPATH = "%s" }' % (ROOT / "python"),
            # An agent that is still learning may fail the checks.
            "check": "[]",
        }
        options = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        run = [timeloom, "run", str(HERE / "plant.toml"), "--name", "{name}", "-o", f"{self._runs.name}/{{name}}"]
        super().__init__([*run, *options], step_s=0.5)

    def judge(self, observation):
        return -abs(float(observation[0]) - self.wanted_m), False


if __name__ == "__main__":
    env = TankEnv()
    observation, info = env.reset(seed=1)
    truncated = False
    while not truncated:
        inflow = np.clip(0.1 * 1.5**0.5 + 0.5 * (1.5 - observation), 0.0, 0.3)
        observation, reward, _, truncated, info = env.step(inflow.astype(np.float32))
        print("%5.1f s: level %.3f m, reward %.3f" % (info["now_s"], observation[0], reward))
    env.close()
