//! Network cards with a clock, as programs on hosts of a simulated network see them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::passed;

/// Runs a scenario, and returns the log of its program `asker`. A run that is not trusted because
/// the machine is busy counts, too: the card shows the model's time.
fn log_of(name: &str, scenario: &str) -> String {
    let base = std::env::temp_dir().join(format!("timeloom-{name}-{}", std::process::id()));
    fs::create_dir_all(&base).expect("a temporary directory");
    let file = base.join("card.toml");
    fs::write(&file, scenario).expect("our own");
    let timeloom = Path::new(env!("CARGO_BIN_EXE_timeloom"));
    let output = Command::new(timeloom)
        .arg("run")
        .arg(&file)
        .arg("-o")
        .arg(base.join("run"))
        .env("TIMELOOM_PROGRAM", timeloom)
        .output()
        .expect("our own program");
    let log = fs::read_to_string(base.join("run/logs/asker.log")).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    let is_late = output.status.code() == Some(4);
    assert!(passed(output.status) || is_late, "{said}\n{log}");
    fs::remove_dir_all(&base).expect("our own");
    log
}

const COMMANDS: &str = r#"
schema = "timeloom/1"
name = "card"
time = { duration = "5 s", mode = "skip", compute = "none", start = "2024-01-01T12:00:00Z" }
[network]
[system]
links = [{ between = ["a", "b"] }]
[system.hosts.a]
address = "10.0.0.1/24"
card = { offset = "2 s" }
programs = [{ name = "asker", essential = false, run = ["sh", "-c", """
phc_ctl /dev/ptp0 caps cmp
phc_ctl eth0 cmp
phc_ctl /dev/ptp0 freq 1000 wait 1 freq cmp
phc_ctl -- /dev/ptp0 adj -2.5 cmp
phc_ctl /dev/ptp0 set 1000 get
phc_ctl /dev/ptp0 freq 62500000 || true
"""] }]
[system.hosts.b]
address = "10.0.0.2/24"
programs = [{ name = "other", essential = false, run = ["sh", "-c", "! phc_ctl /dev/ptp0 get"] }]
"#;

/// With `compute = "none"` time stands while a command computes, so the results are exact.
#[test]
fn phc_ctl_reads_steers_and_sets_the_clock_of_a_card() {
    let log = log_of("card", COMMANDS);
    let told = |text: &str| assert!(log.contains(text), "{text}: {log}");
    told("62499999 maximum frequency adjustment (ppb)");
    told("has cross timestamping support");
    assert_eq!(
        log.matches("offset from CLOCK_REALTIME is -2000000000ns")
            .count(),
        2,
        "by its name and by that of the interface: {log}"
    );
    told("clock frequency offset is 1000.000000ppb");
    // A second at one millionth more; the clock's nanoseconds are rounded down.
    told("offset from CLOCK_REALTIME is -2000000999ns");
    told("offset from CLOCK_REALTIME is 499999001ns");
    told("clock time is 1000.000000000");
    told("Numerical result out of range");
}

const SIGNED: &str = r#"
schema = "timeloom/1"
name = "signed"
seed = 3
time = { duration = "20 s", mode = "skip", start = "2024-01-01T12:00:00Z" }
[network.ptp]
security = "ed25519"
[network.clocks]
gm = { role = "grandmaster" }
t1 = { role = "transparent", clock = { frequency = "30 ppm" } }
t2 = { role = "transparent", clock = { frequency = "-30 ppm" } }
[system]
switches = ["t1", "t2"]
links = [
    { between = ["gm", "t1"], rate = "1 Gbit/s", delay = "1 us" },
    { between = ["t1", "t2"], rate = "1 Gbit/s", delay = "1 us" },
    { between = ["t2", "b"], rate = "1 Gbit/s", delay = "1 us" },
]
[system.hosts.b]
address = "10.0.0.2/24"
card = { offset = "3 us" }
ptp = "slave"
programs = [{ name = "asker", run = ["sh", "-c", """
exec "$TIMELOOM_PROGRAM" ptp slave -i eth0 --stamps hardware \
    --auth inline-ed25519 --keys "$TIMELOOM_PTP_KEYS"
"""] }]
"#;

#[test]
fn a_real_slave_verifies_simulated_clocks_and_measures_its_card_exactly() {
    let log = log_of("signed", SIGNED);
    let accepted = log.lines().filter(|line| line.contains(" accepted: "));
    let accepted: Vec<&str> = accepted.collect();
    assert!(accepted.len() >= 5, "{log}");
    for line in accepted {
        let offset = line
            .split("offset ")
            .nth(1)
            .and_then(|it| it.split(' ').next());
        let offset_ns: i64 = offset.and_then(|it| it.parse().ok()).expect(line);
        assert!((offset_ns - 3_000).abs() <= 2, "{log}");
        assert!(line.contains("2 hops"), "{log}");
    }
    assert!(!log.contains("violation:"), "{log}");
}

const QUEUED: &str = r#"
schema = "timeloom/1"
name = "queued"
time = { duration = "5 s", mode = "skip", compute = "none", start = "2024-01-01T12:00:00Z" }
[network]
[system]
links = [{ between = ["a", "b"], rate = "1 Mbit/s" }]
[system.hosts.a]
address = "10.0.0.1/24"
card = {}
programs = [{ name = "asker", essential = false, run = ["python3", "-c", """
import ctypes, fcntl, socket, struct, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
setting = ctypes.create_string_buffer(struct.pack("3i", 0, 1, 0))
request = struct.pack("16sQ16x", b"eth0", ctypes.addressof(setting))
fcntl.ioctl(sender, 0x89b0, request)
sender.setsockopt(socket.SOL_SOCKET, 37, 1 | 64)
def stamp():
    while True:
        try:
            _, parts, _, _ = sender.recvmsg(2048, 1024, 0x2000)
        except BlockingIOError:
            time.sleep(0.001)
            continue
        for level, kind, data in parts:
            if (level, kind) == (socket.SOL_SOCKET, 37):
                seconds, ns = struct.unpack("6q", data)[4:]
                return seconds * 10**9 + ns
time.sleep(0.5)
sender.sendto(b"find the neighbour", ("10.0.0.2", 5000))
stamp()
time.sleep(0.5)
for number in range(3):
    sender.sendto(bytes([number]) * 1000, ("10.0.0.2", 5000))
stamps = [stamp() for _ in range(3)]
sender.sendto(b"to itself", ("10.0.0.1", 5000))
print("between", stamps[1] - stamps[0], stamps[2] - stamps[1])
print("to itself", stamp())
"""] }]
[system.hosts.b]
address = "10.0.0.2/24"
"#;

/// Frames that wait in the host's queue leave one after the other, in virtual time, which passes
/// while the program asks for their stamps. A frame that never reaches the card has no stamp.
#[test]
fn the_stamp_of_a_frame_that_waits_in_the_queue_is_that_of_its_departure() {
    let log = log_of("queued", QUEUED);
    let between = log.lines().find_map(|line| line.split_once("between "));
    let (_, between) = between.unwrap_or_else(|| panic!("{log}"));
    let spans: Vec<i64> = between
        .split(' ')
        .filter_map(|it| it.parse().ok())
        .collect();
    // 1,000 bytes of data with their headers, at 1 Mbit/s.
    assert!(spans.len() == 2 && spans[0] == spans[1], "{log}");
    assert!((8_300_000..8_700_000).contains(&spans[0]), "{log}");
    assert!(log.contains("to itself 0"), "{log}");
}
