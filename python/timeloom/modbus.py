"""Field devices that speak Modbus/TCP, and their clients: a thin layer over pymodbus.

Nothing here depends on virtual time: these are ordinary programs, of which a scenario has many. (The devices of a
scenario, ``[system.devices]``, are Timeloom's own and belong to a plant. A server here has logic of its own.)

A device with a measured value and a switch::

    server = Server(inputs={0: current_a}, on_coil={0: breaker})
    server.serve()                                # forever

and its client::

    with Client("10.0.0.2") as device:
        if device.read_float(0) > 30.0:
            device.write_coil(0, False)

Numbers are float32 in two registers, high word first, as in most devices.

Needs pymodbus (``timeloom[modbus]``).
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Callable, Mapping, Sequence

from pymodbus.client import ModbusTcpClient
from pymodbus.constants import ExcCodes
from pymodbus.exceptions import ModbusException
from pymodbus.pdu import ModbusPDU
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

PORT = 502


class ModbusError(Exception):
    """The device did not answer, or refused; the text states which."""


class Client:
    """Client of one device. Connects at the first request, and again after the connection broke.

    Args:
        host, port: address of the device.
        unit: unit identifier, if several devices share an address.
        timeout_s: time limit of an answer.

    Raises:
        ModbusError: each method.
    """

    def __init__(self, host: str, port: int = PORT, unit: int = 1, timeout_s: float = 1.0):
        self._unit = unit
        self._name = f"{host}:{port}"
        self._client = ModbusTcpClient(host, port=port, timeout=timeout_s, retries=0)

    def read_floats(self, address: int, count: int) -> list[float]:
        """Reads input registers from ``address`` as this many numbers."""
        answer = self._ask(lambda unit: self._client.read_input_registers(address, count=2 * count, device_id=unit))
        return _floats(answer.registers)

    def read_float(self, address: int) -> float:
        """Reads two input registers as a number."""
        return self.read_floats(address, 1)[0]

    def write_float(self, address: int, value: float) -> None:
        """Sets two holding registers to a number."""
        self.write_floats(address, [value])

    def write_floats(self, address: int, values: Sequence[float]) -> None:
        """Sets holding registers from ``address`` to these numbers, all at one instant."""
        words = [word for value in values for word in _words(value)]
        self._ask(lambda unit: self._client.write_registers(address, words, device_id=unit))

    def read_coil(self, address: int) -> bool:
        """Reads the state of a switch."""
        answer = self._ask(lambda unit: self._client.read_coils(address, count=1, device_id=unit))
        return bool(answer.bits[0])

    def write_coil(self, address: int, on: bool) -> None:
        """Sets a switch."""
        self._ask(lambda unit: self._client.write_coil(address, on, device_id=unit))

    def close(self) -> None:
        """Leave the device as it is."""
        self._client.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Callable[[int], ModbusPDU]) -> ModbusPDU:
        try:
            if not self._client.connected and not self._client.connect():
                raise ModbusError(f"{self._name} does not accept a connection")
            answer = request(self._unit)
        except ModbusException as error:
            self._client.close()
            raise ModbusError(f"{self._name} does not answer: {error}") from None
        if answer.isError():
            raise ModbusError(f"{self._name} refuses: {answer}")
        return answer


class Server:
    """A device. Values are requested when they are read, and passed on when they are written.

    Args:
        inputs: values of input registers, by address: called for each read of them; two registers each.
        on_float: by address of holding registers: called with a number that is written there; a value that is no
            finite number is refused.
        on_coil: by address: called with the new state of a switch.
        coils: initial states of switches, by address; the default is off.
        host, port: address to listen at. Port 0 takes one that is free, which is :attr:`port`.
        unit: unit identifier of the device.

    Anything else is refused as an illegal address.
    """

    def __init__(
        self,
        inputs: Mapping[int, Callable[[], float]] | None = None,
        on_float: Mapping[int, Callable[[float], None]] | None = None,
        on_coil: Mapping[int, Callable[[bool], None]] | None = None,
        coils: Mapping[int, bool] | None = None,
        host: str = "0.0.0.0",
        port: int = PORT,
        unit: int = 1,
    ):
        self._inputs, self._on_float, self._on_coil = dict(inputs or {}), dict(on_float or {}), dict(on_coil or {})
        states = {**dict.fromkeys(self._on_coil, False), **(coils or {})}
        numbers = [SimData(at, count=2, values=0, datatype=DataType.REGISTERS) for at in sorted(self._inputs)]
        set_points = [SimData(at, count=2, values=0, datatype=DataType.REGISTERS) for at in sorted(self._on_float)]
        switches = [SimData(at, values=states[at], datatype=DataType.BITS) for at in sorted(states)]
        # A block may not be empty. Its placeholder is refused below.
        no_bits = [SimData(_NOTHING, values=False, datatype=DataType.BITS)]
        no_words = [SimData(_NOTHING, datatype=DataType.REGISTERS)]
        blocks = (switches or no_bits, no_bits, set_points or no_words, numbers or no_words)
        self._device = SimDevice(unit, simdata=blocks, action=self._access)
        self._address = (host, port)
        #: Port of the listener, once it listens.
        self.port = port

    def serve(self) -> None:
        """Answers until the program ends."""
        asyncio.run(self.serve_async())

    async def serve_async(self, listening: Callable[[], None] | None = None) -> None:
        """Answers until cancelled; ``listening`` is called when it can be connected to."""
        server = ModbusTcpServer(self._device, address=self._address)
        await server.listen()
        # pymodbus declares the base class of transports; that of a listener has sockets.
        self.port = server.transport.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        if listening is not None:
            listening()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await server.shutdown()

    async def _access(
        self,
        function_code: int,
        start_address: int,
        address: int,
        count: int,
        registers: list[int],
        written: list[int] | list[bool] | None,
    ) -> ExcCodes | None:
        if address + count > _NOTHING:
            return ExcCodes.ILLEGAL_ADDRESS
        if function_code == _READ_INPUT:
            for at, value in self._inputs.items():
                if address < at + 2 and at < address + count:
                    registers[at - start_address : at - start_address + 2] = _words(value())
        elif function_code in _WRITE_REGISTERS and written is not None:
            for at, changed in self._on_float.items():
                if address <= at and at + 2 <= address + len(written):
                    [number] = _floats([int(word) for word in written[at - address : at - address + 2]])
                    if not math.isfinite(number):
                        return ExcCodes.ILLEGAL_VALUE
                    changed(number)
        elif function_code in _WRITE_COILS and written is not None:
            for place, on in enumerate(written):
                if told := self._on_coil.get(address + place):
                    told(bool(on))
        return None


#: Last address of the protocol; no device of ours uses it.
_NOTHING = 0xFFFF
_READ_INPUT = 4
_WRITE_REGISTERS = (6, 16)
_WRITE_COILS = (5, 15)


def _words(value: float) -> list[int]:
    high, low = struct.unpack(">HH", struct.pack(">f", value))
    return [high, low]


def _floats(words: Sequence[int]) -> list[float]:
    return list(struct.unpack(f">{len(words) // 2}f", struct.pack(f">{len(words)}H", *words)))
