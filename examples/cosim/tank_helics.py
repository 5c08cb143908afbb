"""A water tank as a HELICS federate, with a broker of its own: see tank.toml.

usage: tank_helics.py [--port 23404] [--hang-at SECONDS]
"""

import argparse
import sys
import time

import helics as h

STEP_S = 0.05
AREA_M2 = 2.0

parser = argparse.ArgumentParser(description="A water tank as a HELICS federate.")
parser.add_argument("--port", type=int, default=23404, help="where the broker listens")
parser.add_argument("--hang-at", type=float, default=float("inf"), help="stop answering, to see who notices")
options = parser.parse_args()

broker = h.helicsCreateBroker("zmq", "", f"--federates=2 --port={options.port} --loglevel=no_print")
info = h.helicsCreateFederateInfo()
h.helicsFederateInfoSetCoreTypeFromString(info, "zmq")
h.helicsFederateInfoSetCoreInitString(info, f"--federates=1 --brokerport={options.port}")
h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_PERIOD, STEP_S)
tank = h.helicsCreateValueFederate("tank", info)
level = h.helicsFederateRegisterGlobalPublication(tank, "tank/level", h.HELICS_DATA_TYPE_DOUBLE, "m")
inflow = h.helicsFederateRegisterSubscription(tank, "plc/inflow", "m^3/s")
h.helicsInputSetDefaultDouble(inflow, 0.1)

h.helicsFederateEnterExecutingMode(tank)
level_m, now_s = 1.0, 0.0
h.helicsPublicationPublishDouble(level, level_m)
while True:
    granted_s = h.helicsFederateRequestTime(tank, now_s + STEP_S)
    if granted_s >= h.HELICS_TIME_MAXTIME or not h.helicsBrokerIsConnected(broker):
        break
    if granted_s >= options.hang_at:
        time.sleep(3600)
    outflow = 0.1 * level_m**0.5
    level_m += (h.helicsInputGetDouble(inflow) - outflow) / AREA_M2 * (granted_s - now_s)
    h.helicsPublicationPublishDouble(level, level_m)
    now_s = granted_s
    if now_s >= 20.0:
        break
h.helicsFederateDisconnect(tank)
# The broker is in this process, which must outlive the other federates.
h.helicsBrokerWaitForDisconnect(broker, 60_000)
h.helicsFederateFree(tank)
h.helicsCloseLibrary()
print(f"level {level_m:.3f} m at {now_s:.2f} s")
sys.exit(0)
