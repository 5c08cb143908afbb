"""A feeder's controller as an IEC 60870-5-104 controlled station, by c104 (lib60870): point 11 is the current [A], sent
every second; point 12 is the command to the breaker."""

import time

import c104
from feeder import Feeder

feeder = Feeder()


def measure(point: c104.Point) -> None:
    point.value = feeder.current_a()


def command(point: c104.Point, previous_info: c104.Information, message: c104.IncomingMessage) -> c104.ResponseState:
    feeder.switch(bool(point.value))
    return c104.ResponseState.SUCCESS


server = c104.Server(ip="0.0.0.0", port=2404)
station = server.add_station(common_address=1)
current = station.add_point(io_address=11, type=c104.Type.M_ME_NC_1, report_ms=1000)
current.on_before_auto_transmit(callable=measure)
current.on_before_read(callable=measure)
breaker = station.add_point(io_address=12, type=c104.Type.C_SC_NA_1)
breaker.on_receive(callable=command)
server.start()
print("listening", flush=True)
while True:
    time.sleep(3600)
