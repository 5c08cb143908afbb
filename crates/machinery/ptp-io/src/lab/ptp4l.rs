//! Nodes that run ptp4l: its configuration, its process, and the offsets that it prints.
//!
//! The configuration uses only options of linuxptp 3.1.1, because ptp4l exits at once on an unknown
//! option. `free_running` is always set, so that no laboratory steers the machine's clock.

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

use rustix::process::{Pid, Signal, kill_process};
use timeloom_fabric::Namespace;
use timeloom_ptp::DelayMechanism;
use timeloom_sys::command::die_with_parent;

use super::LabOptions;
use crate::keys::GroupFile;
use crate::{PtpError, Role, Transport};

/// Running ptp4l process. Dropping the value ends the process.
#[derive(Debug)]
pub(super) struct Ptp4l {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// Returns the text of the configuration file for a node.
fn configuration(role: Role, options: &LabOptions) -> String {
    let (profile, transport) = (&options.profile, options.transport);
    let mut text = String::from(
        "[global]\ntime_stamping software\nfree_running 1\ntx_timestamp_timeout 100\nfault_reset_interval -4\nfreq_est_interval 0\n",
    );
    let transport = match transport {
        Transport::Layer2 => "L2",
        Transport::Udp4 => "UDPv4",
    };
    let delay = match profile.delay {
        DelayMechanism::PeerToPeer => "P2P",
        DelayMechanism::EndToEnd => "E2E",
    };
    let lines = [
        format!("network_transport {transport}"),
        format!("delay_mechanism {delay}"),
        format!("domainNumber {}", profile.domain),
        format!("logSyncInterval {}", profile.log_sync_interval),
        format!("logAnnounceInterval {}", profile.log_announce_interval),
        format!("logMinPdelayReqInterval {}", profile.log_delay_interval),
        format!("logMinDelayReqInterval {}", profile.log_delay_interval),
        format!("summary_interval {}", profile.log_sync_interval),
        match role {
            Role::Grandmaster => "priority1 100".to_owned(),
            Role::Transparent => format!("clock_type {delay}_TC\npriority1 254"),
            Role::Slave | Role::Monitor => "slaveOnly 1".to_owned(),
        },
    ];
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    if let Some(group) = &options.group {
        let file = options.directory.join(SA_FILE);
        let _ = writeln!(text, "sa_file {}", file.display());
        let _ = writeln!(text, "spp {}", group.policy);
        let _ = writeln!(text, "active_key_id {}", group.key_id);
    }
    text
}

const SA_FILE: &str = "sa.cfg";

/// Returns the text of linuxptp's file of security associations.
fn associations(group: &GroupFile) -> String {
    format!(
        "[security_association]\nspp {}\nallow_mutable 0\n{} SHA256-128 HEX:{}\n",
        group.policy, group.key_id, group.key
    )
}

impl Ptp4l {
    pub(super) fn start(
        name: &str,
        namespace: &Namespace,
        interfaces: &[&str],
        role: Role,
        options: &LabOptions,
    ) -> Result<Self, PtpError> {
        let directory = &options.directory;
        let path = directory.join(format!("{name}.cfg"));
        std::fs::write(&path, configuration(role, options)).map_err(PtpError::file(&path))?;
        if let Some(group) = &options.group {
            let path = directory.join(SA_FILE);
            std::fs::write(&path, associations(group)).map_err(PtpError::file(&path))?;
        }
        let mut command = Command::new(&options.ptp4l);
        // Debian installs ptp4l in a directory that may not be in a user's PATH.
        let search = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{search}:/usr/sbin:/sbin"));
        command
            .arg("-f")
            .arg(&path)
            .args(["-m", "-q", "--uds_address"])
            .arg(directory.join(format!("{name}.sock")));
        for interface in interfaces {
            command.args(["-i", interface]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        namespace
            .confine(&mut command)
            .map_err(PtpError::doing("enter a namespace"))?;
        // The process must end with the laboratory, however that ends.
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => PtpError::Unsupported(
                "ptp4l is not installed here (Debian: apt-get install linuxptp)".to_owned(),
            ),
            _ => PtpError::doing("start ptp4l")(error),
        })?;
        let output = child.stdout.take().expect("it was asked for");
        let log = Arc::new(Mutex::new(String::new()));
        let written = log.clone();
        let reader = spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let mut log = written.lock();
                let _ = writeln!(log, "{line}");
            }
        });
        Ok(Self {
            child,
            log,
            reader: Some(reader),
        })
    }

    /// Returns the number of offsets that this ptp4l has measured as a slave so far.
    pub(super) fn measured(&self) -> usize {
        self.log.lock().matches("master offset").count()
    }

    /// Ends the process and returns everything that it printed.
    pub(super) fn finish(mut self) -> String {
        self.end();
        self.log.lock().clone()
    }

    fn end(&mut self) {
        if let Some(reader) = self.reader.take() {
            // The process has not been waited for, so its process identifier is still valid.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
            let _ = reader.join();
        }
    }
}

impl Drop for Ptp4l {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the offset and the path delay of every measurement in a slave's log, in nanoseconds.
pub(super) fn measurements(log: &str) -> Vec<(f64, f64)> {
    let after = |line: &str, words: &str| -> Option<f64> {
        let (_, rest) = line.split_once(words)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    log.lines()
        .filter_map(|line| Some((after(line, "master offset")?, after(line, "path delay")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_read_as_ptp4l_prints_them() {
        let log = "ptp4l[1.2]: selected /dev/ptp0\n\
                   ptp4l[12.345]: master offset      -1634 s0 freq      +0 path delay       912\n\
                   ptp4l[12.5]: port 1: SLAVE to FAULTY\n";
        assert_eq!(measurements(log), [(-1634.0, 912.0)]);
    }
}
