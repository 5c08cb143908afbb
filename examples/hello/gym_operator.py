"""Acts for an agent in the tank's testbed, in the place of keep_level.py: see tank_env.py."""

import sys
import time

from timeloom.gym_agent import AgentLink
from timeloom.modbus import Client

link = AgentLink()
with Client(sys.argv[1]) as tank:
    while True:
        link.observe([tank.read_float(0)])
        action = link.action()
        if action is not None:
            tank.write_float(0, action[0])
        time.sleep(0.1)
