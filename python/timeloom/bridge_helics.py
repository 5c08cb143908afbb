"""A HELICS federation grants time to a run: this process is one federate, and the granter of the run.

``timeloom bridge helics CONFIG`` starts it (``python -m timeloom.bridge_helics``); it needs the package ``helics``. The
scenario is stepped and has a plant ``timeloom.exchange`` (``timeloom.bridge``). The configuration is a JSON file::

    {
      "session": "case",            # of the run; may be left out when only one runs
      "exchange": "grid",           # as the plant is configured
      "step_s": 0.1,                # step of the run, then of the federation
      "name": "timeloom",           # of the federate
      "core_type": "tcp_ss",        # as in HELICS; default "zmq"
      "core_init": "--federates=1 --broker=10.0.0.9",
      "subscribe": {"bus.680.v1": {"key": "grid/v680"}},   # inputs of the exchange
      "publish": {"storage.kw": {"key": "plc/storage"}},   # outputs of the exchange
      "patience_s": 5.0             # time limit for the others, for one grant and at the start
    }

At each step the run advances to the next instant with the federation's values of the last one. Then the federation is
asked for that instant, and the run's outputs are published there. So no value acts before it was computed. Units
default to those of the exchange.

Ends with status 0 when the run has ended; with 1 when the federation has ended, failed, or
exceeded the patience: then the message names the federates that are behind. The run is paused meanwhile; it ends after
its own patience (``stepped = { patience = "…" }``), with the granter as the cause.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from timeloom.bridge import Testbed
from timeloom.control import Refused, SessionEnded
from timeloom.exchange import ExchangeError
from timeloom.federate import Federate, crossings, number
from timeloom.plant import PlantError

_KEYS = {
    "session", "exchange", "step_s", "name", "core_type", "core_init", "subscribe", "publish", "patience_s",
}  # fmt: skip


def bridge(config: dict[str, Any], wait_s: float = 60.0) -> tuple[int, int]:
    """Let the federation grant time to the run until the run ends.

    Returns:
        the instant of the end in nanoseconds, and the number of steps.

    Raises:
        PlantError: the configuration is wrong, or the federation failed.
        ExchangeError, Refused, SessionEnded: the run is missing, or has failed.
    """
    if unknown := sorted(set(config) - _KEYS):
        raise PlantError(f"unknown keys: {', '.join(unknown)}; there are: {', '.join(sorted(_KEYS))}")
    step_ns = round(number(config, "step_s", 0.0) * 1e9)
    if step_ns <= 0:
        raise PlantError("step_s must be a number above 0: by how much the run goes on at once")
    exchange = config.get("exchange")
    if not isinstance(exchange, str):
        raise PlantError("exchange must be the name of the run's exchange")
    with Testbed(config.get("session"), exchange, wait_s) as run:
        units = run.units(inputs=config.get("subscribe", {}), outputs=config.get("publish", {}))
        subscribed = crossings(config, "subscribe", units)
        published = crossings(config, "publish", units)
        federate = Federate(config, subscribed, published)
        federate.begin()
        federate.publish(run.read(list(published)))
        steps = 0
        while not run.ended:
            # The default of a subscription is the exchange's value, until one is published.
            run.give({name: federate.read(name) for name in subscribed if federate.has(name)})
            before_ns = run.now_ns
            run.grant_ns(before_ns + step_ns)
            if run.now_ns > before_ns:
                federate.reach(run.now_ns)
            federate.publish(run.read(list(published)))
            steps += 1
        federate.close()
        return run.now_ns, steps


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        config = json.loads(Path(arguments[0]).read_text())
        if not isinstance(config, dict):
            raise PlantError("it must hold one object")
    except (OSError, ValueError, PlantError) as error:
        print(f"timeloom bridge helics: {arguments[0]}: {error}", file=sys.stderr)
        return 2
    try:
        end_ns, steps = bridge(config)
    except (PlantError, ExchangeError, Refused, SessionEnded) as error:
        print(f"timeloom bridge helics: {error}", file=sys.stderr)
        return 1
    print(f"the run has ended at {end_ns * 1e-9:.9f} s, after {steps} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
