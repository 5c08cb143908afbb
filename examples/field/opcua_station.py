"""A station that protects a feeder over OPC UA: reads its current once a second, and writes its breaker."""

import asyncio
import logging
import sys

from asyncua import Client
from feeder import Protection

SPACE = "urn:timeloom:examples:field"


async def main() -> None:
    protection = Protection(*map(float, sys.argv[2:]))
    async with Client(f"opc.tcp://{sys.argv[1]}:4840/") as client:
        space = await client.get_namespace_index(SPACE)
        feeder = await client.nodes.objects.get_child([f"{space}:Feeder"])
        current = await feeder.get_child([f"{space}:Current"])
        breaker = await feeder.get_child([f"{space}:Breaker"])
        while True:
            close = protection.decide(await current.read_value())
            if close is not None:
                await breaker.write_value(close)
            await asyncio.sleep(1.0)


logging.basicConfig(level=logging.ERROR)
asyncio.run(main())
