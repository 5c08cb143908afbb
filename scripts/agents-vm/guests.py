"""Emulated machines with clocks of their own, on a network of their own.

To be run in a network namespace that nobody else uses (`unshare -n`).
"""

import ctypes
import json
import re
import socket
import subprocess
import time

HOST = "10.77.0.1"
PATIENCE_S = 600


def say(text):
    print(f"{time.monotonic() - BEGUN:6.1f} s: {text}", flush=True)


BEGUN = time.monotonic()


def eventually(what, look):
    """Waits for it, for long."""
    begun = time.monotonic()
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() - begun > PATIENCE_S:
            raise AssertionError(f"never: {what}")
        time.sleep(0.2)


def dies_with_parent():
    """A machine must not outlive the test, however that ends."""
    ctypes.CDLL(None).prctl(1, 9)


def start(command, **more):
    return subprocess.Popen(command, preexec_fn=dies_with_parent, **more)


def network(count):
    """A bridge with a tap for each machine, and this host on it."""
    commands = ["link set lo up", "link add br0 type bridge", f"address add {HOST}/24 dev br0"]
    for index in range(count):
        commands += [f"tuntap add tap{index} mode tap", f"link set tap{index} master br0 up"]
    for command in [*commands, "link set br0 up"]:
        subprocess.run(["ip", *command.split()], check=True)


class Machine:
    """A machine of QEMU's emulation: its root is this host's, which it can only read."""

    # Initial time of each machine's battery-backed clock: wrong by years, each differently.
    WAKES = ("2031-05-01T00:00:00", "2024-02-29T12:00:00", "1999-12-31T23:59:59")

    def __init__(self, index, tools, directory, script, page, khz):
        self.index = index
        self.name = "abcdefgh"[index]
        self.address = f"10.77.0.{index + 10}"
        self.out = directory / self.name
        self.out.mkdir(parents=True)
        self.console = directory / f"{self.name}.console"
        command = [
            "qemu-system-x86_64",
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-smp",
            "1",
            "-m",
            "768",
            "-nodefaults",
            "-nographic",
            "-no-reboot",
            "-serial",
            f"file:{self.console}",
            "-rtc",
            f"base={self.WAKES[index]}",
            "-kernel",
            f"{tools}/vm/keep/vmlinuz",
            "-initrd",
            f"{tools}/agents-vm/initrd",
            "-append",
            "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check "
            # On a busy host a machine may measure its counter's rate with an error of a half. The
            # kernel refines the given value, which makes the clock drift.
            f"tsc_early_khz={khz} run=/usr/bin/python3;{script};{index} ",
            "-fsdev",
            "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device",
            "virtio-9p-pci,fsdev=root,mount_tag=root",
            "-fsdev",
            f"local,id=out,path={self.out},security_model=none",
            "-device",
            "virtio-9p-pci,fsdev=out,mount_tag=out",
            "-netdev",
            f"tap,id=lan,ifname=tap{index},script=no,downscript=no",
            "-device",
            f"virtio-net-pci,netdev=lan,mac=52:54:00:77:00:{index + 10:02x},romfile=",
            "-object",
            f"memory-backend-file,id=page,share=on,mem-path={page},size=1M",
            "-device",
            "ivshmem-plain,memdev=page",
        ]
        self.process = start(command, stdin=subprocess.DEVNULL)
        self.link = None
        self.started = {}

    def reach(self):
        def connect():
            assert self.process.poll() is None, self.console.read_text()[-2000:]
            try:
                return socket.create_connection((self.address, 7000), timeout=PATIENCE_S)
            except OSError:
                return None

        self.link = eventually(f"{self.name} answers", connect).makefile("rw")

    def ask(self, **what):
        self.link.write(json.dumps(what) + "\n")
        self.link.flush()
        line = self.link.readline()
        assert line, f"{self.name} is gone: {self.console.read_text()[-2000:]}"
        return json.loads(line)

    def run(self, *command):
        said = self.ask(run=[str(word) for word in command])
        assert said["status"] == 0, f"{self.name}: {command}: {said}"
        return said["out"]

    def begin(self, to, *command):
        """Starts it; what it says goes to that file of this machine's directory."""
        words = [str(word) for word in command]
        self.started[to] = self.ask(start=words, to=f"/mnt/{to}")["pid"]

    def stop(self, to):
        """Ends what was begun so, if it still runs."""
        self.ask(run=["/bin/kill", str(self.started.pop(to))])

    def said(self, name):
        path = self.out / name
        return path.read_text(errors="replace") if path.exists() else ""

    def clock(self, which):
        words = f"import time; print(time.clock_gettime_ns(time.CLOCK_{which}))"
        return int(self.run("/usr/bin/python3", "-c", words))

    def error(self):
        """What its kernel says its civil time is wrong by, at most, in seconds (adjtimex)."""
        words = "import ctypes; b = (ctypes.c_long * 26)(); ctypes.CDLL(None).adjtimex(b); print(b[3])"
        return int(self.run("/usr/bin/python3", "-c", words)) / 1e6

    def page(self):
        """The file of the memory that it shares with the others."""
        script = (
            "for d in /sys/bus/pci/devices/*; do "
            '[ "$(cat $d/device)" = 0x1110 ] && echo 1 > $d/enable && echo $d/resource2; done; :'
        )
        return self.run("/bin/sh", "-c", script).strip()

    def relate(self, clocks, page):
        """Its counter less the host's, as an interval, and how fast its second is."""
        said = self.run(clocks, "relate", page, self.index)
        low, high, rate = re.match(r"relation (-?\d+) (-?\d+) (\d+)", said).groups()
        return int(low), int(high), int(rate)


def synchronise(machines, chronyd, directory):
    """This host says what time it is; each machine asks it, by NTP."""
    common = ["cmdport 0", "bindcmdaddress /", "user root"]
    server = ["local stratum 1", "allow 10.77.0.0/24", f"pidfile {directory}/chronyd.pid"]
    # -x: the host's own clock is not adjusted.
    keeper = start(
        [chronyd, "-x", "-d", *common, *server],
        stdout=(directory / "chronyd.log").open("w"),
        stderr=subprocess.STDOUT,
    )
    for machine in machines:
        follow = [
            f"server {HOST} iburst minpoll -1 maxpoll 1",
            "makestep 0.05 10",
            "pidfile /run/chronyd.pid",
            "maxdistance 10",
        ]
        machine.begin("chronyd.log", chronyd, "-d", *common, *follow)
    return keeper
