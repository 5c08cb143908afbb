"""Timeloom for Python: write a plant, or use one of the ready ones; grant a testbed its time.

- :mod:`timeloom.plant`: base class and main loop of a plant (a child process of the engine).
- :mod:`timeloom.opendss`: power grids, by the DSS C-API.
- :mod:`timeloom.timeline`: clocks that know how good they are; :mod:`timeloom.messages`: messages stamped by them.
- :mod:`timeloom.control`: grants a stepped session its time, as a simulator does.
- :mod:`timeloom.client`: drives a plant from Python, for tests and for trying one out.

Importing ``timeloom`` alone pulls in nothing but this file: a plant should start fast.
"""

__version__ = "0.1.0"
