"""Agents on machines with clocks of their own hold each other in turns, and then act in turns.

Three emulated machines boot at different times, with batteries that are years apart. NTP
brings their civil times together, as well as it can; their agents share that timeline. Each
machine is master in turn, for pauses of random length. What must hold: all stand at one virtual
nanosecond, in every pause; and while they run, any two virtual clocks are mostly no further
apart than the two machines say that they may be (`timeline_error_ns`), seen by a counter that no
machine steers. Mostly: chronyd tells the kernel a bound that lacks what it is still correcting,
so on a busy host it is exceeded now and then, which is counted and printed.
"""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

from guests import HOST, Machine, eventually, network, say, start, synchronise

TIMELOOM, TOOLS, DIRECTORY = sys.argv[1], sys.argv[2], Path(sys.argv[3])
CHRONYD = sys.argv[4]
COUNT = 3
PAUSES = int(os.environ.get("AGENTS_VM_PAUSES", "48"))
SCRIPT = Path(__file__).with_name("machine.py")
CLOCKS = f"{TOOLS}/agents-vm/clocks"
START = "2030-01-01T00:00:00Z"
START_NS = 1_893_456_000 * 1_000_000_000
# Maximum stated error of a machine's clock with which pauses begin.
GOOD_S = 0.1


def boot():
    page = DIRECTORY / "page"
    page.write_bytes(bytes(1 << 20))
    network(COUNT)
    khz = int(subprocess.check_output([CLOCKS, "rate"])) // 1000
    machines = [Machine(index, TOOLS, DIRECTORY, SCRIPT, page, khz) for index in range(COUNT)]
    for machine in machines:
        machine.reach()
    return machines


def settled(machines):
    """What all say that they may be wrong by, once that is little for a while."""
    for _ in range(5):
        errors = [machine.error() for machine in machines]
        if max(errors) > GOOD_S:
            return None
    return errors


def relate(machines):
    """Each machine's counter less the host's, and its second in ticks."""
    pages = [machine.page() for machine in machines]
    truth = start([CLOCKS, "truth", str(DIRECTORY / "page")])
    try:
        return [machine.relate(CLOCKS, page) for machine, page in zip(machines, pages, strict=True)]
    finally:
        truth.kill()
        truth.wait()


def agents(machines):
    """An agent on each, by hand, with a program that reads its clock."""
    key = os.urandom(32).hex()
    for directory in [DIRECTORY, *(machine.out for machine in machines)]:
        # A key file that other users may read is refused.
        (directory / "key").touch(mode=0o600)
        (directory / "key").write_text(key)
    for machine in machines:
        command = [TIMELOOM, "agent", "--host", machine.name, "--name", machine.name]
        command += ["--listen", f"{machine.address}:5500", "--key-file", "/mnt/key"]
        command += ["--patience", "60s", "--assembly", "300s", "--start", START]
        command += ["--log", "/mnt/pauses"]
        for other in machines:
            if other is not machine:
                command += ["--peer", f"{other.name}={other.address}:5500"]
        machine.begin("watched", *command, "--", CLOCKS, "watch")
    for machine in machines:
        eventually(f"time begins on {machine.name}", lambda machine=machine: samples(machine))


CASE = """
schema = "timeloom/1"
name = "three-machines"
[time]
duration = "8 s"
[system]
switches = ["s1"]
links = [
    { between = ["x", "s1"], rate = "10 Mbit/s" },
    { between = ["y", "s1"], rate = "10 Mbit/s" },
    { between = ["z", "s1"], rate = "10 Mbit/s" },
]
[system.hosts.x]
address = "10.0.0.1/24"
[[system.hosts.x.programs]]
name = "asks"
run = ["/bin/ping", "-i", "0.2", "10.0.0.2"]
[system.hosts.y]
address = "10.0.0.2/24"
[system.hosts.z]
address = "10.0.0.3/24"
[[system.hosts.z.programs]]
name = "asks-too"
run = ["/bin/ping", "-i", "0.2", "10.0.0.1"]
[placement]
key_file = "key"
patience = "60 s"
nodes = { x = "a", s1 = "b", y = "b", z = "c" }
"""


def placed(machines):
    """A scenario over the three: frames cross between them, and pauses are everybody's."""
    lines = [CASE, "[placement.agents]"]
    for machine in machines:
        machine.stop("watched")
        lines.append(f'{machine.name} = {{ address = "{machine.address}:5600" }}')
        machine.begin(
            "serves", TIMELOOM, "agent", "--serve", "--listen", f"{machine.address}:5600",
            "--key-file", "/mnt/key", "--directory", "/tmp/agent", "--name", f"run-{machine.name}",
        )  # fmt: skip
    for machine in machines:
        eventually(f"{machine.name} serves", lambda machine=machine: "waits for runs" in machine.said("serves"))
    case = DIRECTORY / "case.toml"
    case.write_text("\n".join(lines))
    asked = subprocess.run([TIMELOOM, "doctor", "--json", "--agents", case], capture_output=True, text=True)
    for line in asked.stdout.splitlines():
        found = json.loads(line)
        say(f"{found['agent']} says: a run {found['state']}, clock within {found['clock_error_ns'] / 1e3:.0f} us")
    assert asked.returncode == 0, asked
    run = subprocess.Popen(
        [TIMELOOM, "run", "--json", "--output", DIRECTORY / "run", case],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    held = 0
    while run.poll() is None:
        master = machines[held % len(machines)]
        said = master.ask(run=[TIMELOOM, "hold", "--name", f"run-{master.name}", "--", "/bin/sleep", "0.3"])
        held += said["status"] == 0
    out, errors = run.communicate()
    assert run.returncode == 0, (out, errors)
    for name in ("asks", "asks-too"):
        log = (DIRECTORY / "run" / "logs" / f"{name}.log").read_text()
        answers = [int(number) for number in re.findall(r"icmp_seq=(\d+)", log)]
        assert answers == list(range(1, len(answers) + 1)) and len(answers) >= 20, log
    assert held >= len(machines), held
    result = json.loads(out)
    say(
        f"a scenario over three machines: {result['virtual_ns'] / 1e9} s, {held} pauses by "
        f"{min(held, len(machines))} of them, no frame lost, untrusted: {result['untrusted']}"
    )


def in_turns():
    """The scenario with computing that takes no time: the results are those of one machine."""
    # A saturated link within a machine holds frames back in real time.
    text = (DIRECTORY / "case.toml").read_text().replace(', rate = "10 Mbit/s"', "")
    turns, alone = DIRECTORY / "turns.toml", DIRECTORY / "alone.toml"
    turns.write_text(text)
    alone.write_text(text.split("[placement]")[0])
    runs = {}
    for name, scenario in (("alone", alone), ("turns", turns), ("again", turns)):
        runs[name] = DIRECTORY / name
        run = subprocess.run(
            [TIMELOOM, "run", "--json", "--output", runs[name], scenario]
            + ["--set", "time.mode=skip", "--set", "time.compute=none"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert run.returncode == 0, (name, run)
        result = json.loads(run.stdout)
        say(f"{name}: {result['virtual_ns'] / 1e9} s in {result['wall_ns'] / 1e9:.2f} s, {result['untrusted']}")
    for name in ("turns", "again"):
        found = subprocess.run([TIMELOOM, "compare", runs["alone"], runs[name]], capture_output=True, text=True)
        assert "they agree in every signal and event" in found.stdout, (name, found)
    say("three machines in turns agree with one machine in every signal, event and line")


def samples(machine):
    """What its program read: instants of its counter, and of virtual time."""
    found = []
    for line in machine.said("watched").splitlines():
        words = line.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            before, after, shown = map(int, words)
            found.append((before, after, shown - START_NS))
    return found


def pauses(machine):
    """Its log, as far as it is written."""
    lines = machine.said("pauses").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def take_turns(machines, lengths):
    for turn, length in enumerate(lengths):
        master = machines[turn % len(machines)]
        held = master.run(TIMELOOM, "hold", "--json", "--name", master.name, "--", "/bin/sleep", f"{length:.3f}")
        at = json.loads(held.splitlines()[0])["virtual_ns"]
        for machine in machines:
            eventually(
                f"{machine.name} goes on",
                lambda machine=machine, turn=turn: len(pauses(machine)) > turn + 1,
            )
            assert pauses(machine)[turn + 1]["at_ns"] == at, (turn, machine.name)
        if turn % 12 == 11:
            say(f"{turn + 1} pauses")


def apart(one, other, hosts_rate):
    """How far apart two clocks were where both ran, in ns: (virtual instant, least, most).

    Each is (samples, (lowest, highest) of its counter less the host's, instants of pauses).
    """
    (mine, my_less, stops), (theirs, their_less, _) = one, other
    per_ns = hosts_rate / 1e9
    found = []
    at = 0
    for before, after, shown in mine:
        # On the host's counter, with its uncertainty.
        low, high = before - my_less[1], after - my_less[0]
        while at + 1 < len(theirs) and theirs[at + 1][0] - their_less[0] < low:
            at += 1
        if at + 1 >= len(theirs):
            break
        first, second = theirs[at], theirs[at + 1]
        # The other machine's two readings around it, without a pause between the three.
        run = {sum(stop <= instant for stop in stops) for instant in (first[2], second[2], shown)}
        if len(run) != 1 or first[0] - their_less[1] > low or second[1] - their_less[0] < high:
            continue
        if second[2] - first[2] > 50_000_000:
            continue
        pace = (second[2] - first[2]) / (second[0] - first[0])
        width = (first[1] - first[0]) / per_ns + (high - low) / per_ns
        width += (their_less[1] - their_less[0]) / per_ns
        middle = (low + high) / 2
        there = first[2] + (middle - (first[0] + first[1]) / 2 + sum(their_less) / 2) * pace
        found.append((shown, shown - there - width, shown - there + width))
    return found


def main():
    machines = boot()
    walls = [machine.clock("MONOTONIC") / 1e9 for machine in machines]
    civil = [machine.run("/bin/date", "-u", "+%Y-%m-%d").strip() for machine in machines]
    say(f"booted: CLOCK_MONOTONIC {walls} s, civil dates {civil}")
    before = relate(machines)
    keeper = synchronise(machines, CHRONYD, DIRECTORY)
    errors = eventually("all know the time", lambda: settled(machines))
    say(f"civil times may be wrong by {errors} s, by NTP from {HOST}")
    agents(machines)
    say("time has begun on all")
    chance = random.Random(16)
    take_turns(machines, [chance.uniform(0.02, 0.4) for _ in range(PAUSES)])
    after = relate(machines)
    report(machines, before, after)
    placed(machines)
    in_turns()
    keeper.kill()


def report(machines, before, after):
    relations = []
    for machine, old, new in zip(machines, before, after, strict=True):
        # Counters of this host's processors may differ slightly, and with them the two ends.
        low, high = max(old[0], new[0]), min(old[1], new[1])
        assert low - high < before[0][2] * 50e-6, f"{machine.name} jumped: {old} {new}"
        both = min(low, high), max(low, high)
        relations.append(both)
        part = (old[2] / before[0][2] - 1) * 1e6
        say(
            f"{machine.name}: its second, unsteered, is {part:+.1f} ppm off a's; its counter is "
            f"known within {both[1] - both[0]} ticks"
        )
    logs = [pauses(machine)[: PAUSES + 1] for machine in machines]
    for number, entries in enumerate(zip(*logs, strict=True)):
        assert len({entry["at_ns"] for entry in entries}) == 1, (number, entries)
    errors = [entry["timeline_error_ns"] for log in logs for entry in log[1:]]
    say(
        f"{PAUSES} pauses, each at one virtual nanosecond on {COUNT} machines; they said that "
        f"they may be wrong by {median(errors) / 1e3:.0f} us (median), "
        f"at most {max(errors) / 1e3:.0f}"
    )
    stops = [entry["at_ns"] for entry in logs[0]]
    seen = [samples(machine) for machine in machines]
    for one in range(COUNT):
        for other in range(one + 1, COUNT):
            mine = (seen[one], relations[one], stops)
            found = apart(mine, (seen[other], relations[other], stops), before[0][2])
            compare(machines[one].name, machines[other].name, found, logs[one], logs[other])


def median(values):
    return sorted(values)[len(values) // 2]


def stated(entry):
    """How far this machine's clock may be off by what its log says, at the end of a run."""
    return entry["timeline_error_ns"] + abs(entry["deviation_ns"]) + entry["deviation_error_ns"]


def compare(one, other, found, mine, theirs):
    """Whether between two pauses the clocks were as near as both machines said at the second."""
    runs = {}
    for shown, least, most in found:
        number = sum(entry["at_ns"] <= shown for entry in mine)
        if number < len(mine):
            runs.setdefault(number, []).append((least, most))
    assert len(runs) > PAUSES // 2, f"{one}, {other}: seen in {len(runs)} of {PAUSES} runs"
    skews, widths, further = [], [], []
    for number, bounds in sorted(runs.items()):
        may = stated(mine[number]) + stated(theirs[number])
        # Intersection of all readings of the run; the last, since clocks are adjusted during the
        # run.
        least, most = bounds[-1]
        surely = max(0, least, -most)
        if surely > may:
            further.append(f"pause {number}: {one} and {other} were {surely:.0f} ns apart at least, and said {may} ns")
        skews.append((number, (least + most) / 2))
        widths.append(may)
    slope, half = trend(skews)
    sizes = [abs(skew) for _, skew in skews]
    say(
        f"{one} and {other}: apart by {median(sizes) / 1e3:.0f} us in the median of {len(sizes)} "
        f"runs, at most {max(sizes) / 1e3:.0f}; said {median(widths) / 1e3:.0f} (median); "
        f"{slope:+.0f} ns a pause (95 %: {slope - half:+.0f} to {slope + half:+.0f}); "
        f"further apart than said in {len(further)}"
    )
    for line in further:
        print(line)
    # A host whose clocks diverge with every pause would be far beyond by now.
    assert median(sizes) <= median(widths), (one, other, sizes, widths)
    late = len(skews) // 2
    assert median(sizes[late:]) <= median(widths), (one, other, sizes, widths)


def trend(points):
    """The slope through them, and half of its interval of 95 %."""
    count = len(points)
    x0 = sum(x for x, _ in points) / count
    y0 = sum(y for _, y in points) / count
    spread = sum((x - x0) ** 2 for x, _ in points)
    slope = sum((x - x0) * (y - y0) for x, y in points) / spread
    rest = sum((y - y0 - slope * (x - x0)) ** 2 for x, y in points)
    return slope, 2 * (rest / max(1, count - 2) / spread) ** 0.5


if __name__ == "__main__":
    main()
