"""A master that protects a feeder over DNP3: scans its current once a second, and switches its breaker."""

import queue
import sys

import opendnp3
from feeder import Protection

scanned: queue.Queue[float] = queue.Queue()


class Values(opendnp3.ISOEHandler):
    def BeginFragment(self, info):
        pass

    def EndFragment(self, info):
        pass

    def Process(self, info, values):
        for each in values:
            if isinstance(each, opendnp3.IndexedAnalog) and each.index == 0:
                scanned.put(each.value.value)


class Listener(opendnp3.IChannelListener):
    def OnStateChange(self, state):
        pass


# The library keeps no references: objects that it calls must stay referenced here.
manager = opendnp3.DNP3Manager(1)
listener, values, application = Listener(), Values(), opendnp3.IMasterApplication()
endpoint = opendnp3.IPEndpoint(sys.argv[1], 20000)
channel = manager.AddTCPClient(
    "client", opendnp3.levels.NOTHING, opendnp3.ChannelRetry.Default(), [endpoint], "0.0.0.0", listener
)
config = opendnp3.MasterStackConfig()
config.link.LocalAddr, config.link.RemoteAddr = 1, 10
master = channel.AddMaster("station", values, application, config)
scan = master.AddClassScan(opendnp3.ClassField.AllClasses(), opendnp3.TimeDuration.Seconds(1), values)
master.Enable()

protection = Protection(*map(float, sys.argv[2:]))
while True:
    close = protection.decide(scanned.get())
    if close is not None:
        latch = opendnp3.OperationType.LATCH_ON if close else opendnp3.OperationType.LATCH_OFF
        master.SelectAndOperate(opendnp3.ControlRelayOutputBlock(latch), 0, lambda result: None)
