"""Functional mock-up units: a co-simulation FMU (FMI 2 or 3) as a plant, by the package ``fmpy``.

Start it with ``python -m timeloom.fmu``. Configuration (``init.config``)::

    {
      "fmu": "tank.fmu",               # relative to where the plant runs
      "start": {"area": 2.0},          # start values of parameters and inputs
      "names": {"level": "tank.h[1]"}  # signals that have another name than their variable
    }

Every variable of type Real (FMI 2) or Float64 (FMI 3) that is one number is a signal, with its unit: inputs and tunable
parameters are writable, and read as they were last written. A write takes effect with the next step.

An FMU whose steps must all be equally long (``canHandleVariableCommunicationStepSize`` is not set) advances in whole
steps of the plant only. In between, where the engine stops for an exchange, it has its values of the last step.

An FMU is foreign code in this process, which it can crash; that is why a plant is a process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fmpy
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave
from fmpy.model_description import ModelDescription, ScalarVariable

from timeloom.plant import Plant, PlantError, serve


class Unit(Plant):
    """One FMU."""

    name = "fmu"

    def setup(self, config: dict[str, Any]) -> None:
        path = config.get("fmu")
        if not isinstance(path, str):
            raise PlantError("config.fmu must name the file of an FMU")
        description = _described(Path(path))
        self._whole_steps = not description.coSimulation.canHandleVariableCommunicationStepSize
        self._variables = _scalars(description)
        names = _names(config.get("names", {}), self._variables)
        #: The value references, by signal.
        self._references = {signal: variable.valueReference for signal, variable in names.items()}
        self._directory = tempfile.TemporaryDirectory(prefix="timeloom-fmu-")
        fmpy.extract(path, unzipdir=self._directory.name)
        self._open(description)
        self._start(config.get("start", {}))
        for signal, variable in names.items():
            self.signal(signal, variable.unit or "", writable=_is_writable(variable))
        #: Time of the FMU; a whole step behind at most.
        self._at_ns = self.t_ns

    def _open(self, description: ModelDescription) -> None:
        is_third = description.fmiVersion.startswith("3")
        slave = FMU3Slave if is_third else FMU2Slave
        self._fmu = slave(
            guid=description.guid,
            unzipDirectory=self._directory.name,
            modelIdentifier=description.coSimulation.modelIdentifier,
            instanceName=self.name,
        )
        self._fmu.instantiate()
        self._get = self._fmu.getFloat64 if is_third else self._fmu.getReal
        self._set = self._fmu.setFloat64 if is_third else self._fmu.setReal
        self._is_third = is_third

    def _start(self, values: object) -> None:
        if not isinstance(values, dict):
            raise PlantError("config.start must be an object of variables and numbers")
        for name, value in values.items():
            if name not in self._variables:
                raise PlantError("the FMU has no such variable", name)
            self._set([self._variables[name].valueReference], [float(value)])
        start_s = self.t_ns * 1e-9
        if self._is_third:
            self._fmu.enterInitializationMode(startTime=start_s)
        else:
            self._fmu.setupExperiment(startTime=start_s)
            self._fmu.enterInitializationMode()
        self._fmu.exitInitializationMode()

    def step(self, t_ns: int, dt_ns: int) -> None:
        end_ns = t_ns + dt_ns
        if self._whole_steps and end_ns % self.step_ns != 0:
            return
        try:
            answer = self._fmu.doStep(
                currentCommunicationPoint=self._at_ns * 1e-9,
                communicationStepSize=(end_ns - self._at_ns) * 1e-9,
            )
        except fmpy.fmi1.FMICallException as error:
            raise PlantError(f"the FMU fails at {self._at_ns * 1e-9} s: {error}") from error
        if self._is_third and answer[1]:
            raise PlantError(f"the FMU asks to end at {end_ns * 1e-9} s")
        self._at_ns = end_ns

    def read(self, names: Sequence[str]) -> list[float]:
        values: list[float] = self._get([self._references[name] for name in names])
        return values

    def write(self, values: Mapping[str, float]) -> None:
        self._set([self._references[name] for name in values], list(values.values()))

    def close(self) -> None:
        self._fmu.terminate()
        self._fmu.freeInstance()
        self._directory.cleanup()


def _described(path: Path) -> ModelDescription:
    try:
        description = fmpy.read_model_description(str(path))
    except Exception as error:  # the reader's own exceptions are many
        raise PlantError(f"{path} cannot be read as an FMU: {error}") from error
    if not description.fmiVersion.startswith(("2", "3")):
        raise PlantError(f"{path} is of FMI {description.fmiVersion}; there are 2 and 3")
    if description.coSimulation is None:
        raise PlantError(f"{path} has no co-simulation, and this plant has no solver for model exchange")
    return description


def _scalars(description: ModelDescription) -> dict[str, ScalarVariable]:
    """The variables that are one real number each; the time is excluded."""
    return {
        variable.name: variable
        for variable in description.modelVariables
        if variable.type in ("Real", "Float64") and not variable.dimensions and variable.causality != "independent"
    }


def _names(given: object, variables: dict[str, ScalarVariable]) -> dict[str, ScalarVariable]:
    """The variables by the names of their signals."""
    if not isinstance(given, dict):
        raise PlantError("config.names must be an object of signals and variables")
    for variable in given.values():
        if variable not in variables:
            raise PlantError("the FMU has no such variable", str(variable))
    renamed = set(given.values())
    signals = {name: variable for name, variable in variables.items() if name not in renamed}
    return signals | {signal: variables[name] for signal, name in given.items()}


def _is_writable(variable: ScalarVariable) -> bool:
    is_tunable = variable.causality == "parameter" and variable.variability == "tunable"
    return bool(variable.causality == "input" or is_tunable)


if __name__ == "__main__":
    serve(Unit())
