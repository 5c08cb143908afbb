"""`timeloom.gym`, with real Gymnasium, the tank's testbed, and real time passing while the agent thinks."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_reset_options, check_reset_return_type, check_space_limit
from gymnasium.wrappers import PassiveEnvChecker

from timeloom.gym import SessionFailed, VirtualTimeEnv
from worlds import ROOT, timeloom_binary


@pytest.fixture
def tank(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The environment of the example, five seconds long."""
    import recorded

    monkeypatch.setenv("PATH", recorded.environment()["PATH"])
    spec = importlib.util.spec_from_file_location("tank_env", ROOT / "examples" / "hello" / "tank_env.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    env = module.TankEnv(duration="5 s", timeloom=timeloom_binary())
    yield env
    env.close()


def full(inflow: float) -> np.ndarray[Any, Any]:
    return np.array([inflow], dtype=np.float32)


def test_time_stands_while_the_agent_thinks(tank: Any) -> None:
    observation, info = tank.reset(seed=1)
    began_s = info["now_s"]
    levels = [float(observation[0])]
    for number in range(1, 5):
        time.sleep(0.7)  # longer than a step: had time passed, it would be seen below
        observation, reward, terminated, truncated, info = tank.step(full(0.3))
        assert info["now_s"] == pytest.approx(began_s + 0.5 * number, abs=1e-9)
        assert not terminated and not truncated and reward == -abs(float(observation[0]) - 1.5)
        levels.append(float(observation[0]))
    assert levels == sorted(levels) and levels[-1] > levels[0], "it acts on what it sees"
    # Maximum inflow in two seconds, into 2 m2: in the 2.8 s of thinking it would have been more.
    assert levels[-1] - levels[0] <= 0.3 * (2.0 + 0.1) / 2.0


def test_an_episode_ends_with_the_session_and_can_be_begun_anew(tank: Any) -> None:
    tank.reset(seed=1)
    steps = 0
    truncated = False
    while not truncated:
        *_, truncated, info = tank.step(full(0.0))
        steps += 1
        assert steps <= 10, "five seconds have ten steps"
    assert info["now_s"] == pytest.approx(5.0)
    with pytest.raises(SessionFailed, match="call reset"):
        tank.step(full(0.0))
    observation, info = tank.reset(seed=2)
    assert observation[0] == pytest.approx(1.0, abs=0.05) and info["now_s"] < 5.0


def test_gymnasium_finds_nothing_wrong(tank: Any) -> None:
    """All checks of Gymnasium, except for equal observations after equal actions: programs here are
    real."""
    check_reset_return_type(tank)
    check_reset_options(tank)
    check_space_limit(tank.observation_space, "observation")
    checked = PassiveEnvChecker(tank)
    checked.reset(seed=3)
    checked.step(tank.action_space.sample())


def test_a_session_that_does_not_begin_reports_the_reason() -> None:
    class Env(VirtualTimeEnv):
        observation_space = action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    command = [timeloom_binary(), "run", "no-such-scenario.toml", "--name", "{name}"]
    with pytest.raises(SessionFailed, match="no-such-scenario"):
        Env(command, step_s=1.0, wait_s=2.0).reset()


def test_a_program_that_tells_nothing_is_found_out() -> None:
    class Env(VirtualTimeEnv):
        observation_space = action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    command = [timeloom_binary(), "exec", "--stepped", "--name", "{name}", "--", "sleep", "60"]
    env = Env(command, step_s=1.0, begin_s=3.0)
    with pytest.raises(SessionFailed, match="no program told what it sees"):
        env.reset()
    env.close()
