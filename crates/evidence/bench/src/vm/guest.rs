//! Worker in a guest, which receives commands over a port of the virtual machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use timeloom_timeline::{Directory, Timeline};
use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::vm::{GuestAgent, HostLink, devices};
use timeloom_timelined::{Daemon, serve};

use super::hungry::{Hunger, Working};
use super::machine::PORT;
use super::mailbox::{MAGIC, Mailbox};
use super::measure::{Sample, costs};
use super::settled::settled;
use super::source::{NAME, daemon_config};
use crate::shared::Shared;

/// Daemons on which the guest's timeline depends; dropping them ends them.
enum Daemons {
    /// The host maintains the timeline, and the guest measures its own counter relative to it.
    Host { _agent: GuestAgent },
    /// The guest maintains its own timeline, with a chronyd of its own.
    Own { _daemon: Daemon, chronyd: Child },
}

impl Drop for Daemons {
    fn drop(&mut self) {
        if let Self::Own { chronyd, .. } = self {
            let _ = chronyd.kill();
        }
    }
}

/// Carries out commands until the port is closed; [`crate::worker_main`] calls this.
///
/// | command | answer |
/// |---|---|
/// | `settle` | `yes`, once the timeline is good; `no`, if it does not get so |
/// | `hungry KIND PORT`, `hungry no` | `yes`, at work for a [`Hunger`], or no more |
/// | `costs ROUNDS BATCH` | a [`super::measure::Cost`] for each clock, as JSON |
/// | `sample COUNT` | so many [`Sample`]s, as JSON |
pub(crate) fn serve_guest() -> io::Result<()> {
    let directory = Directory::new("/run/timelines");
    let told = fs::read_to_string("/proc/cmdline")?;
    let _keeper = match word(&told, "ntp=") {
        None => Daemons::Host {
            _agent: agent(&directory)?,
        },
        Some(port) => own(&directory, port)?,
    };
    let mailbox = mailbox()?;
    let port = devices::port_named(PORT)?;
    let mut answers: File = port.try_clone()?;
    let mut lines = BufReader::new(port);
    let (mut line, mut timeline) = (String::new(), None);
    // Additional load that this guest generates, if any.
    let mut working: Option<Working> = None;
    loop {
        line.clear();
        // The host has not connected to the port yet, or has closed it.
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            std::thread::sleep(SOON);
            continue;
        }
        let answer = match line.trim_end().strip_prefix("hungry ") {
            Some(words) => {
                drop(working.take());
                hunger(words, &mut working)
            }
            None => obey(line.trim_end(), &directory, &mut timeline, &mailbox),
        };
        let answer = answer.unwrap_or_else(|| format!("what? {}", line.trim_end()));
        answers.write_all(format!("{answer}\n").as_bytes())?;
    }
}

fn obey(
    command: &str,
    directory: &Directory,
    timeline: &mut Option<Timeline>,
    mailbox: &Shared<Mailbox>,
) -> Option<String> {
    let timeline = match timeline {
        Some(timeline) => timeline,
        none => none.insert(opened(directory)),
    };
    let json = |error: serde_json::Error| format!("what? {error}");
    let words: Vec<&str> = command.split(' ').collect();
    match words[..] {
        ["settle"] => Some(if settled(timeline) { "yes" } else { "no" }.to_owned()),
        ["costs", rounds, batch] => {
            let costs = costs(timeline, rounds.parse().ok()?, batch.parse().ok()?);
            Some(serde_json::to_string(&costs).unwrap_or_else(json))
        }
        ["sample", count] => {
            let count: usize = count.parse().ok()?;
            let samples: Vec<_> = (0..count)
                .map(|_| Sample::take(timeline, mailbox.get()))
                .collect();
            Some(serde_json::to_string(&samples).unwrap_or_else(json))
        }
        _ => None,
    }
}

/// Starts or stops the load that `words` describes.
fn hunger(words: &str, working: &mut Option<Working>) -> Option<String> {
    if let Some((kind, port)) = words.split_once(' ') {
        let host = SocketAddr::from((GATEWAY, port.parse().ok()?));
        let begun = Working::begin(kind.parse::<Hunger>().ok()?, host);
        *working = Some(begun.ok()?);
    }
    Some("yes".to_owned())
}

/// Waits until the timeline has an interval, and returns the timeline.
fn opened(directory: &Directory) -> Timeline {
    loop {
        if let Some(timeline) = look(directory) {
            return timeline;
        }
        std::thread::sleep(SOON);
    }
}

/// Returns the timeline if it has an interval now.
pub(super) fn look(directory: &Directory) -> Option<Timeline> {
    let timeline = Timeline::open_in(directory, NAME).ok()?;
    let reading = timeline.read_ns().ok()?;
    reading.bounded.then_some(timeline)
}

fn agent(directory: &Directory) -> io::Result<GuestAgent> {
    let region = devices::region()?;
    let link = HostLink::Port(devices::port()?.into());
    GuestAgent::start(link, region.into(), None, directory.clone())
}

/// Starts the whole stack in the guest: chronyd queries the host over the emulated network card,
/// and a Timeloom daemon queries chronyd.
fn own(directory: &Directory, port: &str) -> io::Result<Daemons> {
    fs::create_dir_all("/run/chrony")?;
    // chronyd checks the permissions of this directory.
    fs::set_permissions("/run/chrony", fs::Permissions::from_mode(0o750))?;
    let gateway = GATEWAY.to_string();
    fs::write(
        "/run/chrony/conf",
        super::source::chronyd_client(&gateway, port, "/run/chrony"),
    )?;
    let chronyd = Command::new("chronyd")
        .args(["-x", "-d", "-f", "/run/chrony/conf"])
        .spawn()?;
    let config = daemon_config(directory, Path::new("/run/chrony"));
    let config: DaemonConfig = config.parse().map_err(io::Error::other)?;
    let daemon = serve(&config).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Daemons::Own {
        _daemon: daemon,
        chronyd,
    })
}

/// Maps the memory of the PCI device that contains the mailbox.
fn mailbox() -> io::Result<Shared<Mailbox>> {
    for device in fs::read_dir("/sys/bus/pci/devices")? {
        let path = device?.path();
        let is = |file: &str, number: &str| {
            fs::read_to_string(path.join(file)).is_ok_and(|text| text.trim() == number)
        };
        if is("vendor", "0x1af4") && is("device", "0x1110") {
            OpenOptions::new()
                .write(true)
                .open(path.join("enable"))?
                .write_all(b"1")?;
            let shared: Shared<Mailbox> = Shared::open(&path.join("resource2"))?;
            if shared
                .get()
                .magic
                .load(std::sync::atomic::Ordering::Acquire)
                == MAGIC
            {
                return Ok(shared);
            }
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        "no mailbox in this machine",
    ))
}

/// Returns the value of `key` in the kernel's command line; `None` if it is absent.
fn word<'a>(told: &'a str, key: &str) -> Option<&'a str> {
    told.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
}

/// Address of the host in QEMU's user-mode network.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

const SOON: Duration = Duration::from_millis(5);
