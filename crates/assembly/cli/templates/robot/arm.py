"""An arm on a motor: a rod that hangs down at angle 0, with friction in its joint."""

import math

from timeloom.plant import Plant, serve

GRAVITY_M_S2 = 9.81


class Arm(Plant):
    name = "arm"

    def setup(self, config):
        self.mass_kg = config.get("mass_kg", 2.0)
        self.length_m = config.get("length_m", 0.5)
        self.friction_nms = config.get("friction_nms", 0.2)
        self.most_nm = config.get("most_nm", 15.0)
        self.signal("angle", "rad", 0.0)
        self.signal("speed", "rad/s", 0.0)
        self.signal("torque", "Nm", 0.0, writable=True)
        self.signal("wanted", "rad", 0.0, writable=True)  # for the report

    def step(self, t_ns, dt_ns):
        dt_s = dt_ns * 1e-9
        inertia_kgm2 = self.mass_kg * self.length_m**2 / 3
        weight_nm = self.mass_kg * GRAVITY_M_S2 * self.length_m / 2 * math.sin(self["angle"])
        motor_nm = min(max(self["torque"], -self.most_nm), self.most_nm)
        turning_nm = motor_nm - weight_nm - self.friction_nms * self["speed"]
        # Speed first, so that the integration does not add energy.
        self["speed"] += turning_nm / inertia_kgm2 * dt_s
        self["angle"] += self["speed"] * dt_s


if __name__ == "__main__":
    serve(Arm())
