"""Writes a scenario: binary trees of Open vSwitch bridges with two hosts at each leaf.

With one tree, half of its hosts send to the other half, across the root. With more, the roots are joined by a
simulated network, and each host of the first tree sends to one of another, across it (iperf3, UDP).

    python3 make_tree.py --hosts 64 > tree64.toml                # 63 switches
    python3 make_tree.py --hosts 8 --trees 2 > joined.toml       # Figure 4 of the network paper, smaller
"""

import argparse

HEAD = """# Written by make_tree.py: {trees} x {hosts} hosts, {count} switches.
schema = "timeloom/1"
name = "sdn-{trees}x{hosts}"
seed = 1

[time]
duration = "{seconds} s"
{network}
[system]
switches = [{names}]
links = [
{links}
]

[system.openflow]
switches = [{real}]
[system.openflow.controller]
name = "controller"
run = ["python3", "-u", "learning_switch.py", "--switches", "{count}"{flood}]
ready = "log:all {count} switches connected"
ready_timeout = "60 s"
"""

NETWORK = """
[network]
link = { rate = "1 Gbit/s" }
"""

CABLE = '    {{ between = ["{0}", "{1}"], rate = "1 Gbit/s"{2} }},'

HOST = """
[system.hosts.{name}]
address = "{address}/16"
[[system.hosts.{name}.programs]]
name = "{role}-{name}"
{program}
essential = false
"""

SINK = """run = ["iperf3", "--server", "--one-off"]
ready = "tcp:5201"
ready_timeout = "60 s\""""

SOURCE = """run = ["iperf3", "--client", "{address}", "--udp", "--bitrate", "{rate}", "--time", "{time}"]
after = ["controller", "sink-{sink}"]"""


class Tree:
    """Switch 1 is the root; switch n has 2n and 2n + 1 below it."""

    def __init__(self, number, hosts):
        letter = "abcdefgh"[number]
        self.switches = ["%ss%d" % (letter, n) for n in range(1, hosts)]
        self.hosts = ["%sh%d" % (letter, n) for n in range(1, hosts + 1)]
        self.addresses = ["10.0.%d.%d" % (number + 1, n) for n in range(1, hosts + 1)]
        self.links = [(self.switches[n // 2 - 1], self.switches[n - 1]) for n in range(2, hosts)]
        first_leaf = hosts // 2
        self.links += [(host, self.switches[first_leaf + n // 2 - 1]) for n, host in enumerate(self.hosts)]


def pairs(trees):
    """Who sends to whom, as (name, address) of each."""
    ends = [list(zip(tree.hosts, tree.addresses, strict=True)) for tree in trees]
    if len(ends) == 1:
        half = len(ends[0]) // 2
        return list(zip(ends[0][:half], ends[0][half:], strict=True))
    others = [end for tree in ends[1:] for end in tree]
    step = len(others) // len(ends[0])
    return list(zip(ends[0], others[::step], strict=True))


def scenario(options):
    trees = [Tree(number, options.hosts) for number in range(options.trees)]
    real = [switch for tree in trees for switch in tree.switches]
    cables = [CABLE.format(*link, "") for tree in trees for link in tree.links]
    joined = options.trees > 1
    if joined:
        delay = ', delay = "%s"' % options.delay
        cables += [CABLE.format(tree.switches[0], "core", delay) for tree in trees]
    text = HEAD.format(
        trees=options.trees,
        hosts=options.hosts,
        count=len(real),
        seconds=options.seconds,
        network=NETWORK if joined else "",
        flood=', "--switches-flood"' if options.switches_flood else "",
        names=", ".join('"%s"' % name for name in real + ["core"] * joined),
        real=", ".join('"%s"' % name for name in real),
        links="\n".join(cables),
    )
    time = max(1, options.seconds - options.spread - 15)
    programs = {}
    sending = pairs(trees)
    for number, ((source, _), (sink, address)) in enumerate(sending):
        stream = SOURCE.format(address=address, sink=sink, rate=options.rate, time=time)
        if options.spread:
            stream += '\nstart = "%d ms"' % (1000 * options.spread * number // len(sending))
        programs[source] = ("source", stream)
        programs[sink] = ("sink", SINK)
    for tree in trees:
        for name, address in zip(tree.hosts, tree.addresses, strict=True):
            if name in programs:
                role, program = programs[name]
                text += HOST.format(name=name, address=address, role=role, program=program)
            else:
                text += '\n[system.hosts.%s]\naddress = "%s/16"\n' % (name, address)
    return text


def power_of_two(text):
    number = int(text)
    if not 4 <= number <= 128 or number & (number - 1):
        raise argparse.ArgumentTypeError("a power of two from 4 to 128")
    return number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--hosts", type=power_of_two, default=8, help="of each tree, a power of two, 4 to 128 (default 8)"
    )
    parser.add_argument(
        "--trees", type=int, choices=range(1, 9), default=1, help="joined by a simulated network (default 1)"
    )
    parser.add_argument("--delay", default="5 ms", help="between each tree and the core (default 5 ms)")
    parser.add_argument("--seconds", type=int, default=20, help="virtual length of the run (default 20)")
    spread = "seconds over which senders begin; those that begin at once ask for addresses at once (default 0)"
    parser.add_argument("--spread", type=int, default=0, help=spread)
    flood = "what is for all does not wait for the controller at each switch"
    parser.add_argument("--switches-flood", action="store_true", help=flood)
    parser.add_argument("--rate", default="1M", help="of each sender, as iperf3 takes it (default 1M)")
    print(scenario(parser.parse_args()), end="")
