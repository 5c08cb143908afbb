"""In a virtual machine: does what the host asks for, one line of JSON after the other."""

import json
import pathlib
import socketserver
import subprocess
import sys

INDEX = int(sys.argv[1])
ADDRESS = f"10.77.0.{INDEX + 10}"
PORT = 7000
STARTED: list[subprocess.Popen] = []


class Asked(socketserver.StreamRequestHandler):
    """`run` waits for a command and says what it said; `start` leaves it running."""

    def handle(self):
        for line in self.rfile:
            asked = json.loads(line)
            if "start" in asked:
                with open(asked["to"], "w") as out:
                    STARTED.append(subprocess.Popen(asked["start"], stdout=out, stderr=out))
                said = {"pid": STARTED[-1].pid}
            else:
                ran = subprocess.run(asked["run"], capture_output=True, text=True)
                said = {"status": ran.returncode, "out": ran.stdout, "errors": ran.stderr}
            self.wfile.write(json.dumps(said).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main():
    # As with systemd: the root's processes are in a group, and the root delegates its controllers.
    groups = pathlib.Path("/sys/fs/cgroup")
    (groups / "init").mkdir()
    (groups / "init" / "cgroup.procs").write_text("0")
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "eth0"], check=True)
    subprocess.run(["ip", "link", "set", "eth0", "up"], check=True)
    with Server((ADDRESS, PORT), Asked) as server:
        print(f"machine {INDEX} listens", flush=True)
        server.serve_forever()


main()
