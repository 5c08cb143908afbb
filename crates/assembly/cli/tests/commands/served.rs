//! Real programs that use the services of a simulated host: curl and Python, through a portal, a
//! router and a delay of 50 ms. Needs root and curl.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};

use timeloom_test_support::eventually;

use crate::support::passed;

const SCENARIO: &str = r#"
schema = "timeloom/1"
name = "served"
# Until the program is done: how long its parts take to start is the machine's affair.
time = { duration = "600 s" }
[network]
routers = ["r1", "r2"]
[network.hosts.web]
address = "10.2.0.9/24"
services = [
    { kind = "http", bytes = 3000 },
    { kind = "echo" },
    { kind = "source", port = 5000, bytes = 70000 },
]
[system]
links = [
    { between = ["client", "r1"] },
    { between = ["r1", "r2"], rate = "10 Mbit/s", delay = "50 ms", mtu = 1000 },
    { between = ["r2", "web"] },
]
[system.hosts.client]
address = "10.1.0.2/24"
[[system.hosts.client.programs]]
name = "ask"
run = ["python3", "-u", "-c", """
import socket, subprocess
def curl(*args):
    run = subprocess.run(["curl", "-s", "-o", "/dev/null", "--noproxy", "*", *args,
        "-w", "%{http_code} %{size_download} %{size_upload} %{time_total}"], capture_output=True, text=True)
    print("curl", run.returncode, run.stdout)
curl("http://10.2.0.9/")
curl("http://10.2.0.9/60000")
curl("--data-binary", "x" * 40000, "http://10.2.0.9/")
curl("http://10.2.0.9:81/")
def whole(port, said):
    with socket.create_connection(("10.2.0.9", port)) as s:
        s.sendall(said)
        s.shutdown(socket.SHUT_WR)
        heard = b""
        while part := s.recv(65536):
            heard += part
        return heard
what = bytes(range(256)) * 200
print("echo", whole(7, what) == what)
print("source", len(whole(5000, b"")))
"""]
essential = false
"#;

/// Run that is ended when the value is dropped.
struct Running(Child);

impl Running {
    fn stop(mut self) -> ExitStatus {
        // The process has not been reaped, so its ID has not been reused.
        let told = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(told.unwrap().success());
        self.0.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn real_programs_use_the_services_of_a_simulated_host() {
    let base = std::env::temp_dir().join(format!("timeloom-served-{}", std::process::id()));
    fs::create_dir_all(&base).unwrap();
    let file = base.join("served.toml");
    fs::write(&file, SCENARIO).unwrap();
    for mode in ["virtual", "skip"] {
        let directory = base.join(mode);
        let child = Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .arg("run")
            .arg(&file)
            .args(["--set", &format!("time.mode={mode}"), "-o"])
            .arg(&directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let run = Running(child.unwrap());
        let log = || fs::read_to_string(directory.join("logs/ask.log")).unwrap_or_default();
        let is_done = || log().contains("source ") && log().ends_with('\n');
        eventually("the program's last line", is_done);
        let log = log();
        // The test stops the run. If time skips, the run may have ended before.
        let status = run.stop();
        assert!(
            passed(status) || status.code() == Some(1),
            "{mode}: {status}"
        );
        check(&log, mode);
    }
    fs::remove_dir_all(&base).unwrap();
}

fn check(log: &str, mode: &str) {
    let after = |word: &str| -> Vec<Vec<String>> {
        let lines = log.lines().filter_map(|line| line.split_once(word));
        let words = lines.map(|(_, rest)| rest.split_whitespace().map(str::to_owned));
        words.map(Iterator::collect).collect()
    };
    let curls = after("curl ");
    let said: Vec<_> = curls.iter().map(|words| words[..4].join(" ")).collect();
    let expected = [
        "0 200 3000 0",
        "0 200 60000 0",
        "0 200 17 40000",
        "7 000 0 0",
    ];
    assert_eq!(said, expected, "{mode}: {log}");
    for (words, least_s) in curls.iter().zip([0.2, 0.25, 0.23, 0.1]) {
        // A transfer takes two round trips, and the time for its bytes at 10 Mbit/s. A refusal
        // takes one round trip.
        let took: f64 = words[4].parse().unwrap();
        assert!(took >= least_s, "{mode}: {log}");
    }
    assert_eq!(after("echo "), [["True"]], "{mode}: {log}");
    assert_eq!(after("source "), [["70000"]], "{mode}: {log}");
}
