"""A plant on the far side of a TLS connection: real processes, certificates made for each test run."""

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from timeloom.client import PlantFailed, PlantProcess
from timeloom.plant import EXIT_BUG, EXIT_OK
from timeloom.wire import PROTOCOL
from worlds import MS, own_address, timeloom_binary

TESTS = Path(__file__).parent


class Authority:
    """Signs certificates, and leaves them in a directory."""

    def __init__(self, directory: Path, name: str):
        self.directory, self.key = directory, ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.ca = directory / f"{name}.pem"
        self.ca.write_bytes(self._signed(self.subject, self.key, x509.BasicConstraints(True, 0)))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType) -> bytes:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self.subject)
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - day).not_valid_after(now + day)
        for extension in extensions:
            made = made.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def options(self, name: str, address: str, ca: Path | None = None) -> list[str]:
        """The options of a party with a certificate of this authority, which trusts one
        authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        host = x509.IPAddress(ipaddress.ip_address(address.split(":")[0]))
        certificate, secret = self.directory / f"{name}.cert", self.directory / f"{name}.key"
        certificate.write_bytes(self._signed(subject, key, x509.SubjectAlternativeName([host])))
        secret.touch(mode=0o600)
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        secret.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
        return ["--ca", str(ca or self.ca), "--cert", str(certificate), "--key", str(secret)]


class World:
    """The machine of a plant, and the parties that may reach it."""

    def __init__(self, directory: Path):
        self.directory, self.address = directory, own_address()
        self.authority = Authority(directory, "authority")
        self.mine = self.authority.options("run", self.address)

    @contextlib.contextmanager
    def serving(self, options: list[str] | None = None, plant: str = "worlds:Tank") -> Iterator[subprocess.Popen]:
        options = options or self.authority.options("plant", self.address)
        command = [sys.executable, "-m", "timeloom.remote", "serve", "--listen", self.address, *options, plant]
        with (self.directory / "server").open("wb") as log:
            server = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None and server.stdout.readline() == f"listening on {self.address}\n"
            yield server
        finally:
            server.kill()
            server.wait()

    def reaching(self, options: list[str] | None = None, *more: str) -> PlantProcess:
        command = [sys.executable, "-m", "timeloom.remote", "reach", self.address, *(options or self.mine), *more]
        return PlantProcess(["sh", "-c", 'exec "$@" 2>> "$0"', str(self.directory / "reach"), *command])

    def said(self, who: str) -> str:
        return (self.directory / who).read_text()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_plant_elsewhere_is_a_plant(world: World):
    with world.serving():
        for _ in range(2):  # the second run has a plant of its own
            with world.reaching() as tank:
                tank.init({}, record=["level"], record_every_ns=100 * MS, step_ns=10 * MS)
                tank.write({"inflow": 2.0})
                samples = tank.advance(250 * MS)["samples"]
                assert [sample["values"][0] for sample in samples] == pytest.approx([1.0, 1.2, 1.4])
                with pytest.raises(PlantFailed, match="backwards"):
                    tank.advance(0)
                assert tank.stop() == EXIT_OK
    assert world.said("server").count("exit code 0") == 2


def test_requests_may_be_pipelined_and_long(world: World):
    lines = [{"id": 5, "op": "init", "protocol": PROTOCOL, "step_ns": MS, "config": {"note": "x" * 900_000}}]
    lines += [{"id": 6 + n, "op": "advance", "to_ns": n * MS} for n in range(200)]
    with world.serving(), world.reaching() as tank:
        tank.socket.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        answers = [json.loads(tank._replies.readline()) for _ in lines]
        assert [answer["id"] for answer in answers] == [line["id"] for line in lines]
        assert answers[-1]["ok"]["t_ns"] == 199 * MS


def test_one_run_at_a_time_has_the_plant(world: World):
    with world.serving():
        with world.reaching() as first:
            first.init({}, step_ns=10 * MS)
            with world.reaching() as second:
                with pytest.raises(PlantFailed, match="another run has the plant"):
                    second.init({}, step_ns=10 * MS)
                assert second.process.wait() == EXIT_BUG
            assert first.stop() == EXIT_OK
        with world.reaching() as third:
            third.init({}, step_ns=10 * MS)


def test_a_plant_that_ends_badly_ends_the_run_with_its_reason(world: World):
    with world.serving(), world.reaching() as tank:
        tank.socket.sendall(b"no message\n")
        assert "not a line of JSON" in json.loads(tank._replies.readline())["error"]["message"]
        assert "the plant ended with exit code 2" in json.loads(tank._replies.readline())["error"]["message"]
        assert tank.process.wait() == EXIT_BUG


def test_a_machine_that_is_gone_ends_the_run(world: World):
    with world.serving() as server, world.reaching() as tank:
        tank.init({}, step_ns=10 * MS)
        server.kill()
        assert tank.socket.recv(1) == b""
        tank.process.wait()


def test_strangers_get_nothing_and_disturb_no_client(world: World):
    stranger = Authority(world.directory, "stranger")
    believes = stranger.options("forger", world.address, world.authority.ca)
    host, port = world.address.split(":")
    with world.serving():
        with world.reaching(believes) as refused:
            with pytest.raises(PlantFailed):
                refused.init({}, step_ns=10 * MS)
            assert refused.process.wait() == EXIT_BUG
        words = ["may not believe in this certificate", "UNKNOWN_CA", "Connection reset"]  # whichever is first
        assert any(word in world.said("reach") for word in words)
        # No certificate at all; no TLS at all; the start of a handshake and then nothing.
        bare = ssl.create_default_context(cafile=str(world.authority.ca))
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as plain:
            with bare.wrap_socket(plain, server_hostname=host) as shown:
                shown.sendall(b"{}\n")
                assert shown.recv(1) == b""
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as plain:
            plain.sendall(b'{"id":1,"op":"stop"}\n')
            assert b"id" not in b"".join(iter(lambda: plain.recv(100), b""))
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(b"\x16\x03\x01")
            with world.reaching() as tank:
                tank.init({}, step_ns=10 * MS)
    assert world.said("server").count("a run begins") == 1


def test_the_server_must_be_the_named_one(world: World):
    with world.serving(Authority(world.directory, "stranger").options("forger", world.address, world.authority.ca)):
        with world.reaching() as tank, pytest.raises(PlantFailed):
            tank.init({}, step_ns=10 * MS)
    with world.serving(world.authority.options("other", "10.1.2.3")):
        with world.reaching() as tank, pytest.raises(PlantFailed):
            tank.init({}, step_ns=10 * MS)
        with world.reaching(None, "--name", "10.1.2.3") as tank:
            tank.init({}, step_ns=10 * MS)
    assert world.said("reach").count("CERTIFICATE_VERIFY_FAILED") == 2


def test_mistakes_are_said_with_their_mend(world: World):
    key = world.mine[-1]
    Path(key).chmod(0o640)
    with world.reaching() as tank, pytest.raises(PlantFailed):
        tank.init({})
    assert f"chmod 600 {key}" in world.said("reach")
    Path(key).chmod(0o600)
    with world.reaching(None, "--wait-s", "0") as tank, pytest.raises(PlantFailed):
        tank.init({})
    assert "is not there after 0 s" in world.said("reach")
    for arguments, says in [
        (["reach", "here", *world.mine], "'here' is not HOST:PORT"),
        (["serve", "--listen", world.address, *world.mine, "worlds:Tonk"], "'worlds:Tonk' is not MODULE:CLASS"),
        (["reach", world.address, *world.mine], "the engine starts plants"),
    ]:
        command = [sys.executable, "-m", "timeloom.remote", *arguments]
        done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
        assert done.returncode != 0 and says in done.stderr, done.stderr


def test_a_scenario_has_its_plant_elsewhere(world: World):
    command = [sys.executable, "-m", "timeloom.remote", "reach", world.address, *world.mine]
    scenario = world.directory / "elsewhere.toml"
    scenario.write_text(f"""
        schema = "timeloom/1"
        name = "elsewhere"
        [time]
        duration = "1 s"
        mode = "skip"
        [simulation.plants.tank]
        run = {json.dumps(command)}
        step = "10 ms"
        record = {{ signals = ["level"], every = "100 ms" }}
        [[check]]
        name = "level"
        assert = "min(tank.level) == 1"
    """)
    run = [timeloom_binary(), "run", str(scenario), "--output", str(world.directory / "results")]
    with world.serving():
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        [*run[:-1], str(world.directory / "again"), "--set", "simulation.plants.tank.timeout=1 s"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "tank" in done.stderr, done.stderr
