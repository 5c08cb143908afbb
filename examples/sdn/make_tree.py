"""Writes a scenario: a binary tree of Open vSwitch bridges with hosts at its leaves, two at each.

Half of the hosts send to the other half, across the root, at a constant rate (iperf3, UDP).

    python3 make_tree.py --hosts 64 > tree64.toml      # 63 switches
"""

import argparse

HEAD = """# Written by make_tree.py: {switches} switches, {hosts} hosts.
schema = "timeloom/1"
name = "tree{hosts}"
seed = 1

[time]
duration = "{seconds} s"

[system]
switches = [{names}]
links = [
{links}
]

[system.openflow]
switches = [{names}]
[system.openflow.controller]
name = "controller"
run = ["python3", "-u", "learning_switch.py", "--switches", "{switches}"]
ready = "log:all {switches} switches connected"
ready_timeout = "60 s"
"""

HOST = """
[system.hosts.h{number}]
address = "10.0.0.{number}/24"
[[system.hosts.h{number}.programs]]
name = "{role}{number}"
{program}
essential = false
"""

SINK = """run = ["iperf3", "--server", "--one-off"]
ready = "tcp:5201"
ready_timeout = "60 s\""""

SOURCE = """run = ["iperf3", "--client", "10.0.0.{sink}", "--udp", "--bitrate", "{rate}", "--time", "{time}"]
after = ["controller", "sink{sink}"]"""


def tree(hosts):
    """Names of the switches, and the links as pairs: switch 1 is the root, switch n has 2n and 2n + 1 below it."""
    switches = hosts - 1
    links = [("s%d" % (n // 2), "s%d" % n) for n in range(2, switches + 1)]
    first_leaf = hosts // 2
    links += [("h%d" % (n + 1), "s%d" % (first_leaf + n // 2)) for n in range(hosts)]
    return ["s%d" % n for n in range(1, switches + 1)], links


def scenario(hosts, seconds, rate):
    names, links = tree(hosts)
    text = HEAD.format(
        switches=len(names),
        hosts=hosts,
        seconds=seconds,
        names=", ".join('"%s"' % name for name in names),
        links="\n".join('    { between = ["%s", "%s"], rate = "1 Gbit/s" },' % link for link in links),
    )
    half = hosts // 2
    for number in range(1, hosts + 1):
        role = "source" if number <= half else "sink"
        source = SOURCE.format(sink=number + half, rate=rate, time=max(1, seconds - 15))
        text += HOST.format(number=number, role=role, program=source if role == "source" else SINK)
    return text


def power_of_two(text):
    number = int(text)
    if not 4 <= number <= 128 or number & (number - 1):
        raise argparse.ArgumentTypeError("a power of two from 4 to 128")
    return number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=power_of_two, default=8, help="a power of two, 4 to 128 (default 8)")
    parser.add_argument("--seconds", type=int, default=20, help="virtual length of the run (default 20)")
    parser.add_argument("--rate", default="1M", help="of each sender, as iperf3 takes it (default 1M)")
    options = parser.parse_args()
    print(scenario(options.hosts, options.seconds, options.rate), end="")
