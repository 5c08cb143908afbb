"""A station that protects a feeder over Modbus/TCP: asks for its current once a second, and switches its breaker."""

import sys
import time

from feeder import Protection

from timeloom.modbus import Client, ModbusError

protection = Protection(*map(float, sys.argv[2:]))
with Client(sys.argv[1]) as device:
    while True:
        try:
            close = protection.decide(device.read_float(0))
            if close is not None:
                device.write_coil(0, close)
        except ModbusError as error:
            print(error, flush=True)
        time.sleep(1.0)
