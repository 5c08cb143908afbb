"""A six-joint arm of the UR5's size: where its tool is, and how its joints must stand for that.

Denavit-Hartenberg parameters as Universal Robots publishes them ("DH Parameters for calculations of kinematics and
dynamics", UR5). The inverse is in closed form, for a tool that points straight down. Metres and radians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Parameters of the six joints, in the published order.
A_M = (0.0, -0.425, -0.39225, 0.0, 0.0, 0.0)
D_M = (0.089159, 0.0, 0.0, 0.10915, 0.09465, 0.0823)
ALPHA = (math.pi / 2, 0.0, 0.0, math.pi / 2, -math.pi / 2, 0.0)
#: Fastest turn of a joint, by the data sheet: 180 degrees a second.
JOINT_SPEED = math.pi

Vector = tuple[float, float, float]


class OutOfReach(ValueError):
    """No joints bring the tool there."""


def joints_along(q: Sequence[float]) -> list[Vector]:
    """Where the base, the six joints' frames and so the tool are; the tool is last."""
    # Columns of the rotation, and the origin.
    x, y, z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    at = (0.0, 0.0, 0.0)
    places = [at]
    for turn, a, d, alpha in zip(q, A_M, D_M, ALPHA, strict=True):
        ct, st, ca, sa = math.cos(turn), math.sin(turn), math.cos(alpha), math.sin(alpha)
        along = _mix(ct, x, st, y)
        across = _mix(ct, y, -st, x)
        at = (
            at[0] + d * z[0] + a * along[0],
            at[1] + d * z[1] + a * along[1],
            at[2] + d * z[2] + a * along[2],
        )
        x, y, z = along, _mix(ca, across, sa, z), _mix(ca, z, -sa, across)
        places.append(at)
    return places


def tool(q: Sequence[float]) -> Vector:
    """Where the tool is."""
    return joints_along(q)[-1]


def joints(x: float, y: float, z: float) -> list[float]:
    """The joints that bring the tool to a place, pointing down: shoulder and elbow up. Raises :class:`OutOfReach`."""
    # In the top view, the shoulder's offset moves the arm's plane past the tool; the arm extends
    # towards the negative side of that plane, because the published lengths are negative.
    beyond = x * x + y * y - D_M[3] * D_M[3]
    if beyond <= 0.0:
        raise OutOfReach(f"({x:.3f}, {y:.3f}) is inside of the shoulder")
    along = -math.sqrt(beyond)
    q1 = math.atan2(y, x) - math.atan2(-D_M[3], along)
    # In that plane: the wrist relative to the shoulder; upper arm and forearm have negative
    # lengths.
    across, up = along + D_M[4], z + D_M[5] - D_M[0]
    a2, a3 = A_M[1], A_M[2]
    cos3 = (across * across + up * up - a2 * a2 - a3 * a3) / (2 * a2 * a3)
    if not -1.0 <= cos3 <= 1.0:
        raise OutOfReach(f"({x:.3f}, {y:.3f}, {z:.3f}) is too far from the shoulder")
    q3 = math.acos(cos3)
    q2 = math.atan2(-up, -across) - math.atan2(-a3 * math.sin(q3), -a2 - a3 * math.cos(q3))
    # The wrist compensates the rotation of the other joints, so that the tool points down and does
    # not rotate about its axis.
    return [_near(q1), _near(q2), q3, _near(-math.pi / 2 - q2 - q3), -math.pi / 2, _near(q1)]


def _near(angle: float) -> float:
    """The same angle, within half a turn of zero."""
    return math.remainder(angle, 2 * math.pi)


def _mix(a: float, u: Vector, b: float, v: Vector) -> Vector:
    return (a * u[0] + b * v[0], a * u[1] + b * v[1], a * u[2] + b * v[2])
