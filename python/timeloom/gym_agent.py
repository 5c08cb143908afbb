"""The testbed's side of :mod:`timeloom.gym`: a program in a session that acts and observes for the
agent.

    link = AgentLink()
    while True:
        link.observe([read_level()])
        if (action := link.action()) is not None:
            write_inflow(action[0])
        time.sleep(0.1)

It is a guest like any other: it is paused while the agent thinks. Needs only the standard library.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence

#: Variable with the environment's address; the environment starts the session with it.
SOCKET_VARIABLE = "TIMELOOM_GYM_SOCKET"


class AgentLink:
    """Connection to the environment that started the session. Never waits.

    Raises:
        KeyError: the program was not started by an environment.
    """

    def __init__(self) -> None:
        self._environment = os.environ[SOCKET_VARIABLE]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # A name picked by the kernel would belong to a network namespace; files are accessible from
        # all.
        path = f"{self._environment}.{os.getpid()}"
        self._socket.bind(path)
        self._action: list[float] | None = None

    def observe(self, values: Sequence[float]) -> None:
        """Sends an observation. The agent gets the last one sent."""
        line = json.dumps([float(value) for value in values], allow_nan=False).encode()
        self._socket.sendto(line, self._environment)

    def action(self) -> list[float] | None:
        """The agent's last action; none before the first."""
        while True:
            try:
                self._action = json.loads(self._socket.recv(65536))
            except BlockingIOError:
                return self._action
