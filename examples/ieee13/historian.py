"""Keeps what the watch writes down: a plant without physics, whose values reach the results."""

from timeloom.plant import Plant, serve


class Historian(Plant):
    name = "historian"

    def setup(self, config):
        for phase in (1, 2, 3):
            self.signal(f"told.s{phase}", "kVA", writable=True)
        self.signal("imbalance", "kW", writable=True)
        self.signal("alarm", "1", writable=True)
        self.signal("isolated", "1", writable=True)

    def step(self, t_ns, dt_ns):
        pass


if __name__ == "__main__":
    serve(Historian())
