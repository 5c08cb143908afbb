"""A feeder's controller as a Modbus/TCP server: input registers 0 and 1 hold the current [A], coil 0 is the breaker."""

import asyncio

from feeder import Feeder

from timeloom.modbus import Server

feeder = Feeder()
server = Server(inputs={0: feeder.current_a}, on_coil={0: feeder.switch}, coils={0: True})
asyncio.run(server.serve_async(lambda: print("listening", flush=True)))
