"""A feeder's controller as an OPC UA server, by asyncua: Feeder.Current [A], twice a second; Feeder.Breaker is
written."""

import asyncio
import logging

from asyncua import Server, ua
from feeder import Feeder

SPACE = "urn:timeloom:examples:field"


async def main() -> None:
    feeder = Feeder()
    server = Server()
    await server.init()
    server.set_endpoint("opc.tcp://0.0.0.0:4840/")
    server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
    space = await server.register_namespace(SPACE)
    node = await server.nodes.objects.add_object(space, "Feeder")
    current = await node.add_variable(space, "Current", 0.0)
    breaker = await node.add_variable(space, "Breaker", True)
    await breaker.set_writable()
    async with server:
        print("listening", flush=True)
        while True:
            if (wanted := await breaker.read_value()) != feeder.closed:
                feeder.switch(wanted)
            await current.write_value(feeder.current_a())
            await asyncio.sleep(0.5)


logging.basicConfig(level=logging.ERROR)
asyncio.run(main())
