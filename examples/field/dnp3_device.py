"""A feeder's controller as a DNP3 outstation, by yadnp3 (opendnp3): analog input 0 is the current [A], sampled twice a
second; a latch at index 0 is the command to the breaker."""

import time

import opendnp3
from feeder import Feeder

feeder = Feeder()


class Breaker(opendnp3.ICommandHandler):
    def Begin(self):
        pass

    def End(self):
        pass

    def Select(self, command, index):
        return self._answer(command, index)

    def Operate(self, command, index, handler, kind):
        answer = self._answer(command, index)
        if answer == opendnp3.CommandStatus.SUCCESS:
            feeder.switch(command.opType == opendnp3.OperationType.LATCH_ON)
        return answer

    @staticmethod
    def _answer(command, index):
        known = isinstance(command, opendnp3.ControlRelayOutputBlock) and index == 0
        return opendnp3.CommandStatus.SUCCESS if known else opendnp3.CommandStatus.NOT_SUPPORTED


class Listener(opendnp3.IChannelListener):
    def OnStateChange(self, state):
        if state == opendnp3.ChannelState.OPENING:
            print("listening", flush=True)


# The library keeps no references: objects that it calls must stay referenced here.
manager = opendnp3.DNP3Manager(1)
listener, breaker, application = Listener(), Breaker(), opendnp3.IOutstationApplication()
endpoint = opendnp3.IPEndpoint("0.0.0.0", 20000)
channel = manager.AddTCPServer(
    "server", opendnp3.levels.NOTHING, opendnp3.ServerAcceptMode.CloseExisting, endpoint, listener
)
config = opendnp3.OutstationStackConfig(opendnp3.DatabaseConfig(1))
config.link.LocalAddr, config.link.RemoteAddr = 10, 1
outstation = channel.AddOutstation("feeder", breaker, application, config)
outstation.Enable()
while True:
    update = opendnp3.UpdateBuilder()
    update.Update(opendnp3.Analog(feeder.current_a()), 0)
    outstation.Apply(update.Build())
    time.sleep(0.5)
