"""Timeloom for Python: write a plant, or use one of the existing ones; grant time to a testbed.

- :mod:`timeloom.plant`: base class and main loop of a plant (a child process of the engine).
- :mod:`timeloom.opendss`: power grids, by the DSS C-API.
- :mod:`timeloom.timeline`: clocks with error bounds; :mod:`timeloom.messages`: messages stamped by them.
- :mod:`timeloom.control`: grants time to a stepped session, as a simulator does.
- :mod:`timeloom.client`: drives a plant from Python, for tests and trials.

Importing ``timeloom`` alone loads nothing but this file: a plant should start fast.
"""

__version__ = "0.2.0"
