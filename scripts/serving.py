"""`timeloom serve` as scripts use it.

    server = Server(Path("target/release/timeloom"), Path("runs"))
    server.url                      # with the token of a page that may act
    server.at("/run?run=hello")     # another page, with that token
    server.stop()

Used by `scripts/test-serve` and `scripts/serve-load`.
"""

import json
import os
import subprocess
from pathlib import Path


class Server:
    """A server with its addresses."""

    def __init__(self, timeloom, directory, listen="127.0.0.1:0"):
        command = [timeloom, "serve", "--json", "--listen", listen, directory]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            # Its reason stands on standard error, which is ours.
            raise RuntimeError(f"`timeloom serve` ended with exit code {self.process.wait()}")
        addresses = json.loads(line)
        self.url = addresses["url"]
        self.origin, self.token = self.url.split("/#token=")

    def at(self, path):
        """The address of a page, with the token: a tab that is opened has none."""
        return f"{self.origin}{path}#token={self.token}"

    def cpu_s(self):
        """Processor time so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        """Resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        resident = next(line for line in lines if line.startswith("VmRSS:"))
        return int(resident.split()[1]) / 1024

    def stop(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
