"""A water tank: what flows in is set from outside, what flows out follows the level."""

from timeloom.plant import Plant, serve


class Tank(Plant):
    name = "tank"

    def setup(self, config):
        self.area_m2 = config.get("area_m2", 2.0)
        self.signal("level", "m", 1.0)
        self.signal("inflow", "m3/s", 0.1, writable=True)

    def step(self, t_ns, dt_ns):
        outflow_m3_s = 0.1 * self["level"] ** 0.5
        self["level"] += (self["inflow"] - outflow_m3_s) / self.area_m2 * dt_ns * 1e-9


if __name__ == "__main__":
    serve(Tank())
