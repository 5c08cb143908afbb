//! Tests of the features that `timeloom exec` needs: a program under a virtual clock.

use parking_lot::Mutex;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use timeloom_guest::{ClockOptions, CommandSpec, FreezeKind, Output, Session, SessionOptions};
use timeloom_run::exit::Failure;
use timeloom_sys::trial;
use timeloom_time::Instant;

use super::{Finding, Need, State};

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = vec![kernel(), seccomp(), ptrace(), memfd(), counter()];
    findings.extend(session());
    findings
}

fn kernel() -> Finding {
    let name = "kernel";
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    let detail = format!("Linux {release} on {}", std::env::consts::ARCH);
    match (next(), next()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => {
            Finding::bad(State::Missing, Need::Exec, name, detail).so(
                "a signal could interrupt a call that the supervisor answers",
                "use Linux 5.19 or later",
            )
        }
        _ => Finding::good(Need::Exec, name, detail),
    }
}

/// Oldest kernel version that has SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV.
const OLDEST: (u32, u32) = (5, 19);

fn seccomp() -> Finding {
    let name = "seccomp user notification";
    let Err(error) = trial::hand_calls_to_a_supervisor() else {
        return Finding::good(Need::Exec, name, "available");
    };
    let detail = format!("refused: {error}");
    Finding::bad(State::Missing, Need::Exec, name, detail).so(
        "calls that wait cannot follow virtual time",
        "use a kernel with CONFIG_SECCOMP_FILTER, in a container that allows seccomp(2)",
    )
}

/// Tests ptrace, which is needed to stop a program at each exec and provide its clock.
fn ptrace() -> Finding {
    let name = "ptrace";
    let missing = |detail: String, fix: &str| {
        Finding::bad(State::Missing, Need::Exec, name, detail)
            .so("no program can be given the virtual clock", fix)
    };
    let child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            return missing(
                format!("cannot start `sleep`: {error}"),
                "install coreutils",
            );
        }
    };
    let seized = trial::seize(&child);
    let _ = child.kill();
    let _ = child.wait();
    let Err(error) = seized else {
        return Finding::good(Need::Exec, name, "a child was seized");
    };
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let fix = match scope.trim() {
        "2" | "3" => "sysctl kernel.yama.ptrace_scope=1 (after 3, only a reboot helps)",
        _ => "allow ptrace(2) in the container (--cap-add SYS_PTRACE)",
    };
    missing(format!("refused: {error}"), fix)
}

/// Tests memfd, which is needed for the replacement vDSO: immutable executable memory.
fn memfd() -> Finding {
    match trial::map_sealed_code() {
        Ok(()) => Finding::good(
            Need::Exec,
            "memfd",
            "sealed executable memory was made and mapped",
        ),
        Err(error) => Finding::bad(
            State::Missing,
            Need::Exec,
            "memfd",
            format!("refused: {error}"),
        )
        .so(
            "the clock cannot be shown to programs",
            "sysctl vm.memfd_noexec=0, and allow executable memory in the security module",
        ),
    }
}

/// Tests, as a session does, whether the kernel itself trusts the TSC.
fn counter() -> Finding {
    let name = "clock source";
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(file).unwrap_or_default();
    match source.trim() {
        "tsc" => Finding::good(
            Need::Exec,
            name,
            "tsc: programs read the clock without entering the kernel",
        ),
        other => {
            let other = if other.is_empty() { "unknown" } else { other };
            Finding::bad(State::Degraded, Need::Exec, name, other).so(
                "each clock read of a program is a system call: correct, but slower",
                "on hardware with an invariant TSC, boot with clocksource=tsc (tsc=reliable in a \
                 VM)",
            )
        }
    }
}

/// Tests everything together, with a program that reads a virtual clock, and with a program that is
/// stopped and continued.
fn session() -> Vec<Finding> {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&warnings);
    let session = Session::new(SessionOptions {
        name: format!("doctor-{}", std::process::id()),
        clock: ClockOptions {
            start: Some(Instant::from_ns(SHOWN_S * 1_000_000_000)),
            ..ClockOptions::default()
        },
        warn: Box::new(move |text| heard.lock().push(text)),
    });
    let session = match session {
        Ok(session) => session,
        Err(error) => return vec![no_program(error.to_string())],
    };
    let mut findings = vec![match date(&session) {
        Ok(shown) => Finding::good(
            Need::Exec,
            PROGRAM,
            format!("`date` saw the virtual time {shown}"),
        ),
        Err(error) => {
            let mut reason = error.to_string();
            for warning in warnings.lock().iter() {
                reason += &format!("\n{warning}");
            }
            no_program(reason)
        }
    }];
    findings.push(match session.machine_files() {
        None => Finding::good(Need::Exec, FILES, "/proc/uptime and /proc/stat are virtual"),
        Some(reason) => Finding::bad(State::Degraded, Need::Exec, FILES, reason).so(
            "programs that read these files learn the machine's uptime and boot time",
            "run as root, with /dev/fuse (modprobe fuse)",
        ),
    });
    if findings[0].state == State::Ok {
        findings.push(stop_and_go(&session));
    }
    findings.push(match session.try_events() {
        Ok(()) => Finding::good(Need::Run, SKIPPING, "by events of the scheduler (BPF)"),
        Err(reason) => {
            let detail = format!("by reading the state of every thread: {reason}");
            Finding::bad(State::Degraded, Need::Run, SKIPPING, detail).so(
                "where time skips, each event costs about 45 us for each thread of the session, \
                 also for those that sleep; results are the same",
                "run as root, on Linux 6.1 or later with CONFIG_DEBUG_INFO_BTF",
            )
        }
    });
    findings
}

const FILES: &str = "files that tell time";

const SKIPPING: &str = "skipping";

const PROGRAM: &str = "program under virtual time";

/// Civil time 2001-09-09T01:46:40Z, which no clock shows by chance today.
const SHOWN_S: i64 = 1_000_000_000;

/// Timeout of a test: long enough for a busy machine, and short enough for a user who waits.
const PATIENCE: Duration = Duration::from_secs(10);

fn no_program(reason: String) -> Finding {
    Finding::bad(State::Missing, Need::Exec, PROGRAM, reason).so(
        "`timeloom exec` and `timeloom run` do not work here",
        "install what is missing above; if nothing is, please report this line",
    )
}

fn date(session: &Session) -> Result<String, Failure> {
    let (mut ours, theirs) = std::io::pipe().map_err(Failure::run)?;
    let mut spec = CommandSpec::new(["date", "+%s"]);
    spec.output = Output::To(theirs.into());
    let guest = session.spawn(&spec).map_err(Failure::run)?;
    drop(spec); // With it our end for writing, or the pipe would never end.
    let status = guest.wait_for(Some(PATIENCE));
    if status.is_none() {
        guest.signal(libc::SIGKILL);
        return Err(Failure::run(format!(
            "`date` did not end within {} s",
            PATIENCE.as_secs()
        )));
    }
    let mut shown = String::new();
    ours.read_to_string(&mut shown).map_err(Failure::run)?;
    let shown = shown.trim();
    match shown.parse::<i64>() {
        Ok(seconds) if (SHOWN_S..SHOWN_S + 60).contains(&seconds) => Ok(format!("{shown} s")),
        _ => Err(Failure::run(format!(
            "`date` should have shown {SHOWN_S}, and showed `{shown}`"
        ))),
    }
}

fn stop_and_go(session: &Session) -> Finding {
    let name = "pause and resume";
    let tried = || -> Result<(), Failure> {
        let (_ours, theirs) = std::io::pipe().map_err(Failure::run)?;
        let mut spec = CommandSpec::new(["sleep", "60"]);
        spec.output = Output::To(theirs.into());
        let guest = session.spawn(&spec).map_err(Failure::run)?;
        let paused = session.pause().map_err(Failure::run);
        let resumed = session.resume().map_err(Failure::run);
        guest.signal(libc::SIGKILL);
        guest.wait_for(Some(PATIENCE));
        paused.and(resumed)
    };
    if let Err(reason) = tried() {
        return Finding::bad(State::Missing, Need::Exec, name, reason.to_string()).so(
            "programs would continue to run while the clock is stopped",
            "run as root, or remove the restriction that forbids signals to this user's processes",
        );
    }
    match session.freeze_kind() {
        FreezeKind::Cgroup => Finding::good(Need::Exec, name, "by the cgroup v2 freezer"),
        FreezeKind::Signals => Finding::bad(
            State::Degraded,
            Need::Exec,
            name,
            "by SIGSTOP; this process may not use the cgroup v2 freezer",
        )
        .so(
            "slower with many processes, and visible to programs that watch their children",
            freezer_fix(
                &std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
                rustix::process::geteuid().is_root(),
            ),
        ),
    }
}

/// Returns the fix that makes the freezer of cgroup v2 usable. `mounts` is the mount table of this
/// process (proc_pid_mountinfo(5)).
fn freezer_fix(mounts: &str, is_root: bool) -> &'static str {
    let mut all = mounts.lines().filter_map(|line| line.split_once(" - "));
    let cgroup = all.find(|(_, of)| of.starts_with("cgroup2 "));
    let Some((place, system)) = cgroup else {
        return if is_root {
            "mount it: `mount -t cgroup2 none /sys/fs/cgroup`. `ip netns exec` hides the machine's, \
             since it mounts a /sys of its own: `nsenter --net=/run/netns/NAME timeloom …` does not"
        } else {
            "run as root, where cgroup v2 is mounted (`ip netns exec` hides it, `nsenter \
             --net=/run/netns/NAME` does not)"
        };
    };
    let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
    let own = place.split(' ').nth(5).is_some_and(is_read_only);
    let whole = system.split(' ').nth(2).is_some_and(is_read_only);
    match (is_root, own || whole) {
        (false, _) => "run as root",
        (true, true) => {
            "mount cgroup v2 writable (`mount -o remount,rw` of where it is); a container needs \
             --privileged for that"
        }
        (true, false) => {
            "let this process make control groups: in a container, or under systemd, give it a \
             subtree of its own (--cgroupns=private and --privileged; Delegate=yes)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_depends_on_the_obstacle_to_the_freezer() {
        const SYS: &str = "166 163 0:40 / /sys rw,relatime - sysfs lab rw\n";
        const WRITABLE: &str = "41 31 0:38 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let fix = |mounts: &str, part: &str| {
            let fix = freezer_fix(mounts, true);
            assert!(fix.contains(part), "{mounts}: {fix}");
            assert!(freezer_fix(mounts, false).contains("run as root"));
        };
        fix(SYS, "nsenter --net=");
        fix(&format!("{SYS}{WRITABLE}"), "subtree");
        fix(&WRITABLE.replace("rw,nosuid", "ro,nosuid"), "remount,rw");
        fix(&WRITABLE.replace("cgroup2 rw", "cgroup2 ro"), "remount,rw");
    }
}
