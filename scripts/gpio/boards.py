"""Four boards on one wire, in a virtual machine: agents with GPIO and network, with one
missed edge, with a stuck wire, and with GPIO alone. Run as its first process' child."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from wire import FALLING, RISING, Board, Wire

NAMES = "abcd"
TIMELOOM = sys.argv[1]
PARTS = sys.argv[2].split(",")
PAUSES = int(sys.argv[3])
RUN = Path("/tmp/boards")
PATIENCE_S = 300


def say(text):
    print(f"{time.monotonic():7.1f} s: {text}", flush=True)


def eventually(what, look):
    """Waits for it, for long."""
    begun = time.monotonic()
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() - begun > PATIENCE_S:
            raise AssertionError(what)
        time.sleep(0.05)


class Agents:
    """An agent on each board."""

    def __init__(self, boards, wire, what, *more, network=True):
        self.what = what
        self.wire = wire
        self.network = network
        self.directory = RUN / what
        self.directory.mkdir(parents=True)
        key = RUN / "key"
        key.write_text("0123456789abcdef" * 4)
        key.chmod(0o600)
        self.agents = []
        for index, board in enumerate(boards):
            name = NAMES[index]
            command = [TIMELOOM, "agent", "--host", name, "--name", self.session(index)]
            command += ["--gpio", f"{board.chip}:0,1,2", "--log", str(self.directory / name)]
            # The boards are joined by a process of a machine that may be busy.
            command += ["--gpio-stuck", "15s"]
            if network:
                command += ["--timeline", "machine", "--patience", "60s"]
                command += ["--listen", f"127.0.0.{index + 1}:5500", "--key-file", str(key)]
                for other in range(len(boards)):
                    if other != index:
                        command += ["--peer", f"{NAMES[other]}=127.0.0.{other + 1}:5500"]
            command += [*more, "--", "/bin/sleep", "86400"]
            errors = (self.directory / f"{name}.err").open("w")
            self.agents.append(subprocess.Popen(command, stderr=errors))
        say(f"{what}: four agents start")
        for index in range(len(boards)):
            eventually(f"{what}: time begins on {NAMES[index]}", lambda index=index: self.runs(index))
        # Before that, all boards tested their outputs, some of them at the same time.
        self.tried = [len(self.errors(index)) for index in range(len(boards))]
        say(f"{what}: time has begun on four boards")

    def session(self, index):
        return f"{self.what}-{NAMES[index]}"

    def errors(self, index):
        return (self.directory / f"{NAMES[index]}.err").read_text()

    def log(self, index):
        text = (self.directory / NAMES[index]).read_text()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def runs(self, index):
        if self.agents[index].poll() is not None:
            raise AssertionError(f"{self.what}: {NAMES[index]} ended: {self.errors(index)}")
        asked = subprocess.run(
            [TIMELOOM, "query", "--json", "--name", self.session(index)],
            capture_output=True,
        )
        return asked.returncode == 0 and not json.loads(asked.stdout)["paused"]

    def pause(self, index, while_held=lambda: None):
        """A hold by this board, until all have gone on."""
        before = [len(self.log(board)) for board in range(len(self.agents))]
        hold = subprocess.Popen(
            [TIMELOOM, "hold", "--json", "--name", self.session(index)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        # `timeloom hold` prints its one line when the board has stopped; it reports no failure.
        told, _, _ = select.select([hold.stdout], [], [], PATIENCE_S)
        assert told, f"{self.what}: {NAMES[index]} never stood: {self.errors(index)}"
        line = hold.stdout.readline()
        assert line, f"{self.what}: {NAMES[index]} did not hold: {self.errors(index)}"
        # The wire is a process that needs CPU time: it would not see a shorter hold.
        eventually("the wire is high", lambda: self.wire.level.value)
        while_held()
        time.sleep(0.02)
        hold.stdin.close()
        hold.wait()
        for board, lines in enumerate(before):
            eventually(
                f"{self.what}: {NAMES[board]} goes on",
                lambda board=board, lines=lines: len(self.log(board)) > lines or self.agents[board].poll() is not None,
            )
        eventually("it falls", lambda: self.wire.stuck.value or not self.wire.level.value)
        return json.loads(line)["virtual_ns"]

    def ended(self, index):
        return eventually(f"{self.what}: {NAMES[index]} ends", lambda: self.agents[index].poll() is not None)

    def end(self):
        for agent in self.agents:
            agent.kill()
            agent.wait()

    def agree(self):
        """Every pause at one instant and over at one instant, on all boards."""
        logs = [self.log(index) for index in range(len(self.agents))]
        least = min(map(len, logs))
        for pause in range(least):
            for key in ("at_ns", "resumed_wall_ns"):
                said = {log[pause][key] for log in logs}
                assert len(said) == 1, f"{self.what}: pause {pause}: {key} {said}"
        return least - 1


def take_turns(agents):
    for turn in range(PAUSES):
        agents.pause(turn % 4)
        if turn % 16 == 15:
            say(f"{agents.what}: {turn + 1} pauses")


def no_faults(agents):
    for index in range(len(NAMES)):
        errors = agents.errors(index)[agents.tried[index] :]
        assert "fault" not in errors, errors


def both(boards, wire):
    """The instants agreed on over the network: 128 pauses, every board master in turn."""
    agents = Agents(boards, wire, "both")
    changes(wire)
    take_turns(agents)
    rises = sum(high for high, _ in changes(wire))
    count = agents.agree()
    assert count >= PAUSES, count
    assert rises >= PAUSES, f"the wire rose {rises} times"
    asked = [[entry["asked"] for entry in agents.log(index)] for index in range(4)]
    for turn in range(PAUSES):
        assert [by[turn + 1] for by in asked] == [index == turn % 4 for index in range(4)], turn
    no_faults(agents)
    off = sorted(
        max(0, abs(entry["deviation_ns"]) - entry["deviation_error_ns"])
        for index in range(4)
        for entry in agents.log(index)[1:]
    )
    say(
        f"both: {count} pauses at one virtual nanosecond, the wire rose {rises} times, no fault; "
        f"clocks off the common line before a pause: median {off[len(off) // 2]} ns, "
        f"most {off[-1]} ns"
    )
    missed(agents, wire)
    agents.end()


def deafen(wire, index, letters):
    """What this board's inputs read stays as it is."""
    wire.faults[index].value = letters


def missed(agents, wire):
    """A falling edge that comes late to one input, and a pause of which a board sees nothing."""
    agents.pause(0, while_held=lambda: deafen(wire, 2, b"f"))
    eventually("the missed edge is said", lambda: "that for falling edges high" in agents.errors(2))
    deafen(wire, 2, b"")
    eventually("it is over", lambda: "works again" in agents.errors(2))
    deafen(wire, 3, b"rf")
    agents.pause(1)
    eventually("the pause is missed", lambda: "no edge arrived" in agents.errors(3))
    deafen(wire, 3, b"")
    for turn in range(4):
        agents.pause(turn)
    count = agents.agree()
    for index in (0, 1):
        errors = agents.errors(index)[agents.tried[index] :]
        assert "fault" not in errors, errors
    say(f"missed: both are said, and all {count} pauses still are at one instant")
    for index in (2, 3):
        sys.stdout.write(agents.errors(index))


def stuck(boards, wire):
    """A wire that stays high: all stop, or go on by the network."""
    agents = Agents(boards, wire, "stuck")
    agents.pause(1)
    wire.stuck.value = 1
    for index in range(4):
        agents.ended(index)
        assert agents.agents[index].returncode == 1
        said = " ".join(agents.errors(index).split())
        assert "no host reports driving it" in said, said
    wire.stuck.value = 0
    say("stuck: all four stopped and said why")
    eventually("the wire falls", lambda: not wire.level.value)
    agents = Agents(boards, wire, "release", "--on-silence", "release")
    wire.stuck.value = 1
    for index in range(4):
        eventually("it is said", lambda index=index: "level is ignored" in agents.errors(index))
        eventually("it goes on", lambda index=index: agents.runs(index))
    for turn in range(4):
        agents.pause(turn)
    wire.stuck.value = 0
    for index in range(4):
        eventually("it is over", lambda index=index: "works again" in agents.errors(index))
    for turn in range(4):
        agents.pause(turn)
    say(f"stuck: with --on-silence release {agents.agree()} pauses at one instant go on")
    agents.end()


def changes(wire):
    """What the wire did since this was asked last."""
    seen = []
    while wire.log.poll():
        seen.append(wire.log.recv())
    return seen


def alone(boards, wire):
    """GPIO and nothing else: each board has stood for as long as its own edges say."""
    agents = Agents(boards, wire, "alone", "--assembly", "20s", network=False)
    changes(wire)
    take_turns(agents)
    eventually("the wire falls", lambda: not wire.level.value)
    time.sleep(1)
    seen = changes(wire)
    logs = [agents.log(index) for index in range(4)]
    no_faults(agents)
    assert all(entry["anchor"] == "own edge" for entry in logs[0])
    stood = []
    for index, log in enumerate(logs):
        assert len(log) == PAUSES + 1, (NAMES[index], len(log))
        first, last = log[0], log[-1]
        wall = last["resumed_wall_ns"] - first["resumed_wall_ns"]
        stood.append(wall - (last["at_ns"] - first["at_ns"]))
        # The wire's process brackets each edge: minimum and maximum time for which the wire was
        # high.
        least = most = 0
        for high, bounds in seen:
            begun, done = bounds[index]
            least += -done if high else begun
            most += -begun if high else done
        assert len(seen) == 2 * PAUSES, len(seen)
        assert least <= stood[-1] <= most, (NAMES[index], least, stood[-1], most)
        say(f"alone: {NAMES[index]} stood for {stood[-1]} ns; its wire was high for {least} to {most} ns")
    say(
        f"alone: after {PAUSES} pauses the boards' clocks differ by {max(stood) - min(stood)} ns "
        "by what the wire's process takes from board to board"
    )
    # One missed edge: the affected board reports it and stops.
    agents.pause(0, while_held=lambda: deafen(wire, 2, b"f"))
    agents.ended(2)
    said = " ".join(agents.errors(2).split())
    assert agents.agents[2].returncode == 1 and "this clock is invalid" in said, said
    deafen(wire, 2, b"")
    say("alone: the board that missed an edge has stopped")
    agents.end()


def main():
    os.makedirs(RUN)
    # As with systemd: the root's processes are in a group, and the root delegates its controllers.
    groups = Path("/sys/fs/cgroup")
    (groups / "init").mkdir()
    (groups / "init" / "cgroup.procs").write_text("0")
    boards = [Board(f"board-{name}") for name in NAMES]
    wire = Wire(boards)
    wire.start()
    say(f"four boards on a wire: {', '.join(board.chip for board in boards)}")
    for part in (both, stuck, alone):
        if part.__name__ not in PARTS:
            continue
        try:
            part(boards, wire)
        except BaseException:
            for log in sorted(RUN.glob("*/*")):
                text = log.read_text()
                print(f"--- {log}: {len(text)} bytes\n{text[-600:]}", flush=True)
            raise
        assert wire.is_alive(), "the wire's process has ended"
    say("the boards have passed")


if __name__ == "__main__":
    assert (RISING, FALLING) == (1, 2)
    main()
