//! What /proc tells about the processes of a session.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{major, minor};

use crate::arch::VFORK;
use crate::linux::memory;
use crate::linux::pidfd::Pidfd;
use crate::linux::spare::with_spare;

/// Identifiers under a directory of /proc; none, if it is gone.
fn numbers_in(path: &str) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    let entries = match with_spare(|| fs::read_dir(path)) {
        Err(error) if is_gone(&error) => return Ok(found),
        other => other?,
    };
    for entry in entries {
        match entry {
            Ok(entry) => {
                let name = entry.file_name();
                found.extend(name.to_str().and_then(|it| it.parse::<i32>().ok()));
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whether what was looked at has ended, and could be looked at before.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// All processes.
pub(crate) fn all() -> Vec<i32> {
    try_all().unwrap_or_default()
}

/// As [`all`], for who must miss none.
///
/// # Errors
/// There is no descriptor or no memory to look.
pub(crate) fn try_all() -> io::Result<Vec<i32>> {
    numbers_in("/proc")
}

/// The threads of a process; empty when it is gone.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    try_threads(pid).unwrap_or_default()
}

/// As [`threads`], for who must miss none.
///
/// # Errors
/// As those of [`try_all`].
pub(crate) fn try_threads(pid: i32) -> io::Result<Vec<i32>> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The command's name, as in `ps`. A program names itself (PR_SET_NAME), so control
/// characters, which a terminal would obey, are question marks.
pub(crate) fn name(pid: i32) -> String {
    let name = with_spare(|| fs::read_to_string(format!("/proc/{pid}/comm")));
    let Ok(name) = name else {
        return "?".into();
    };
    let shown = |c: char| if c.is_control() { '?' } else { c };
    name.trim_end().chars().map(shown).collect()
}

/// Whom a process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// Its parent.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
}

/// The family of a process; `None` when it is gone.
pub(crate) fn family(pid: i32) -> Option<Family> {
    let stat = with_spare(|| fs::read_to_string(format!("/proc/{pid}/stat"))).ok()?;
    // The name, in parentheses, may contain anything. Then: state, parent, group.
    let after = &stat[stat.rfind(')')? + 1..];
    let mut fields = after.split_ascii_whitespace().skip(1);
    let mut next = || fields.next()?.parse().ok();
    Some(Family {
        parent: next()?,
        group: next()?,
    })
}

/// The process that a thread belongs to.
pub(crate) fn process_of(thread: i32) -> i32 {
    status_field(thread, "Tgid:")
        .and_then(|text| text.parse().ok())
        .unwrap_or(thread)
}

/// Returns the tracer of a thread.
pub(crate) fn tracer_of(thread: i32) -> Option<i32> {
    let tracer = status_field(thread, "TracerPid:")?.parse().ok()?;
    (tracer != 0).then_some(tracer)
}

/// The numbers of a process, in our namespace of processes and in those within it.
pub(crate) fn numbers(pid: i32) -> Vec<i32> {
    let text = status_field(pid, "NSpid:").unwrap_or_default();
    let numbers = text.split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// What a thread does about a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalState {
    /// It is pending, for the thread or for its process.
    pub(crate) is_pending: bool,
    /// Sent now, it would be thrown away, unless the thread waits for it (`sigwaitinfo`):
    /// while it does, its status shows the signal as neither blocked nor waited for.
    pub(crate) is_ignored: bool,
}

/// What a thread does about a signal. Nothing, if it is gone.
pub(crate) fn signal_state(thread: i32, signal: i32) -> SignalState {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let has = |name: &str| {
        let mask = field_of(&status, name).and_then(|text| u64::from_str_radix(text, 16).ok());
        mask.unwrap_or(0) & (1 << (signal - 1)) != 0
    };
    let by_default = matches!(
        signal,
        libc::SIGCHLD | libc::SIGCONT | libc::SIGURG | libc::SIGWINCH
    );
    SignalState {
        is_pending: has("SigPnd:") || has("ShdPnd:"),
        is_ignored: !has("SigBlk:") && (has("SigIgn:") || (by_default && !has("SigCgt:"))),
    }
}

/// The capabilities that a thread may use, in its own user namespace.
pub(crate) fn effective_capabilities(thread: i32) -> u64 {
    status_field(thread, "CapEff:")
        .and_then(|text| u64::from_str_radix(&text, 16).ok())
        .unwrap_or(0)
}

/// Returns the number of seccomp filters of a thread (Linux 5.9 and later; 0 before).
pub(crate) fn seccomp_filters(thread: i32) -> u32 {
    status_field(thread, "Seccomp_filters:")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Returns true if a thread has its capabilities in our user namespace.
pub(crate) fn is_in_our_user_namespace(thread: i32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/user")).ok();
    let own = namespace("self");
    own.is_some() && namespace(&thread.to_string()) == own
}

fn status_field(thread: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    field_of(&status, field).map(str::to_owned)
}

fn field_of<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| Some(line.strip_prefix(field)?.trim()))
}

/// The thread of a process that has this number as the process itself counts, which may
/// be in a namespace of its own.
pub(crate) fn thread_as_it_counts(pid: i32, number: i32) -> Option<i32> {
    threads(pid).into_iter().find(|&thread| {
        let numbers = status_field(thread, "NSpid:");
        let innermost = numbers
            .as_deref()
            .and_then(|all| all.split_whitespace().last());
        innermost.and_then(|text| text.parse().ok()) == Some(number)
    })
}

/// Scheduler state, from /proc/PID/stat; `None` when it is gone.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = with_spare(|| fs::read_to_string(format!("/proc/{pid}/stat"))).ok()?;
    behind_name(&stat)?.chars().next()
}

/// Scheduler state, as [`state`], of a thread: sooner told, for the file of a process
/// adds up the times of all its threads.
pub(crate) fn thread_state(thread: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{thread}/task/{thread}/stat")).ok()?;
    behind_name(&stat)?.chars().next()
}

/// The children that a thread has started and that nobody has waited for; none where the
/// kernel does not list them (CONFIG_PROC_CHILDREN).
pub(crate) fn children(thread: i32) -> Vec<i32> {
    let path = format!("/proc/{thread}/task/{thread}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let numbers = text.split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Whether a process is about to end, and its parent does not know yet.
pub(crate) fn is_ending(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| is_ending_in(&stat).unwrap_or(false))
}

/// From /proc/PID/stat: the third field is the state, the ninth the kernel's flags.
fn is_ending_in(stat: &str) -> Option<bool> {
    let mut fields = behind_name(stat)?.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u32 = fields.nth(5)?.parse().ok()?;
    Some(flags & PF_EXITING != 0 && !matches!(state, "Z" | "X"))
}

/// From <linux/sched.h>.
const PF_EXITING: u32 = 4;

/// What follows the name in /proc/PID/stat: from the third field on.
pub(crate) fn behind_name(stat: &str) -> Option<&str> {
    // The name, in parentheses, may contain anything.
    Some(stat[stat.rfind(')')? + 1..].trim_start())
}

/// Whether a thread that sleeps without taking signals does so in a call that
/// made a process.
pub(crate) fn waits_for_vfork_child(thread: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
    let number = text
        .split_ascii_whitespace()
        .next()
        .and_then(|number| number.parse().ok());
    number.is_some()
        && (number == VFORK || matches!(number, Some(libc::SYS_clone | libc::SYS_clone3)))
}

/// A memfd in the memory of a process.
pub(crate) struct MappedMemfd {
    pub(crate) start: u64,
    pub(crate) writable: bool,
    /// As its maker called it, up to the first space.
    pub(crate) name: String,
}

/// The memfds whose names begin with `prefix` that a process has mapped. A file of such
/// a name is none, wherever it lies: by these names processes are found that are then
/// stopped or killed.
pub(crate) fn memfds_of(pid: i32, prefix: &str) -> Vec<MappedMemfd> {
    try_memfds_of(pid, prefix).unwrap_or_default()
}

/// As [`memfds_of`], for who must miss none.
///
/// # Errors
/// There is no descriptor to look. What another user's process has mapped is none of ours,
/// and no error.
pub(crate) fn try_memfds_of(pid: i32, prefix: &str) -> io::Result<Vec<MappedMemfd>> {
    let maps = match with_spare(|| fs::read_to_string(format!("/proc/{pid}/maps"))) {
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(Vec::new());
        }
        other => other?,
    };
    let device = memfd_device().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
    Ok(memfds_in(&maps, device, prefix).collect())
}

/// From /proc/PID/maps: `START-END r--s OFFSET DEVICE INODE /memfd:NAME (deleted)`.
fn memfds_in(maps: &str, device: &str, prefix: &str) -> impl Iterator<Item = MappedMemfd> {
    let memfd = move |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let start = fields.next()?.split('-').next()?;
        let writable = fields.next()?.contains('w');
        let its_device = fields.nth(1)?;
        let name = fields.nth(1)?.strip_prefix("/memfd:")?;
        (its_device == device && name.starts_with(prefix)).then_some(())?;
        Some(MappedMemfd {
            start: u64::from_str_radix(start, 16).ok()?,
            writable,
            name: name.to_owned(),
        })
    };
    maps.lines()
        .filter(move |line| line.contains(prefix))
        .filter_map(memfd)
}

/// Where the kernel keeps memfds, and nothing that has a name of its own.
fn memfd_device() -> Option<&'static str> {
    static DEVICE: OnceLock<String> = OnceLock::new();
    if let Some(known) = DEVICE.get() {
        return Some(known);
    }
    // What failed for want of a descriptor is tried again.
    let memfd = memory::memfd(c"timeloom-device").ok()?;
    let device = memfd.metadata().ok()?.dev();
    let text = format!("{:02x}:{:02x}", major(device), minor(device));
    Some(DEVICE.get_or_init(|| text))
}

/// All processes but our own of which this is so.
pub(crate) fn others(is_so: impl Fn(i32) -> bool) -> Vec<i32> {
    let own = std::process::id() as i32;
    let mut found = all();
    found.retain(|&pid| pid != own && is_so(pid));
    found
}

/// Kills a process of which `is_so` is true, and no other that gets its number.
pub(crate) fn kill_if(pid: i32, is_so: impl Fn(i32) -> bool) -> bool {
    let held = with_spare(|| Pidfd::of_process(pid));
    held.is_ok_and(|held| is_so(pid) && held.send(libc::SIGKILL).is_ok())
}

/// The time namespace in which a process lives, by its name in /proc.
pub(crate) fn time_namespace(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/time")).ok()
}

/// Whether `setns` by this descriptor could bring a thread into another time namespace
/// than its own: one of that kind, or a process in another.
pub(crate) fn leads_to_other_time(thread: i32, descriptor: i32) -> bool {
    let Ok(link) = fs::read_link(format!("/proc/{thread}/fd/{descriptor}")) else {
        return false;
    };
    let led_to = if link.to_string_lossy().starts_with("time:[") {
        Some(link)
    } else {
        let path = format!("/proc/{thread}/fdinfo/{descriptor}");
        let text = fs::read_to_string(path).unwrap_or_default();
        // A pidfd's, in the processes that we see.
        let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"));
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        pid.and_then(time_namespace)
    };
    led_to.is_some() && led_to != time_namespace(thread)
}

/// The clock of a timer that the kernel keeps for a process.
pub(crate) fn clock_of_timer(pid: i32, timer: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/timers")).ok()?;
    clock_in(&text, timer)
}

/// From /proc/PID/timers: a line `ID: 0` and, among those below it, `ClockID: -6`.
fn clock_in(text: &str, timer: i32) -> Option<i32> {
    let value = |line: &str, name: &str| line.strip_prefix(name)?.trim().parse::<i32>().ok();
    text.lines()
        .skip_while(|line| value(line, "ID:") != Some(timer))
        .find_map(|line| value(line, "ClockID:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_memfds_name_is_none() {
        let memfd = "67fffffff000-680000000000 r--s 00000000 00:01 7 /memfd:page-a.1.0 (deleted)\n";
        let files = "7f0000000000-7f0000001000 rw-p 00000000 fe:00 7 /tmp/page-a.1.0\n\
                     7f0000001000-7f0000002000 r--s 00000000 fe:00 8 /memfd:page-a.1.0 (deleted)\n\
                     7f0000002000-7f0000003000 rw-p 00000000 00:00 0 [heap]\n";
        let maps = format!("{files}{memfd}");
        let found: Vec<_> = memfds_in(&maps, "00:01", "page-").collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "page-a.1.0");
        assert_eq!(found[0].start, 0x67ff_ffff_f000);
        assert!(!found[0].writable);
        assert!(memfds_in(&maps, "00:01", "page-b").next().is_none());
    }

    #[test]
    fn who_ends_does_so_until_the_parent_knows() {
        let stat = |state, flags| format!("7 (a) b (c) {state} 1 7 7 0 -1 {flags} 93 0 0");
        for (state, flags, is_ending) in [
            ("R", 4_194_304, false),
            ("R", 4_194_308, true),
            ("D", 4, true),
            ("Z", 4_194_308, false),
            ("X", 4, false),
        ] {
            assert_eq!(
                is_ending_in(&stat(state, flags)),
                Some(is_ending),
                "{state} {flags}"
            );
        }
        assert_eq!(is_ending_in("7 (a) R 1"), None);
        assert!(!is_ending(std::process::id() as i32));
    }

    #[test]
    fn a_child_is_listed_until_it_is_waited_for() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("it starts");
        let this = rustix::thread::gettid().as_raw_nonzero().get();
        let pid = child.id() as i32;
        assert!(children(this).contains(&pid));
        child.wait().expect("it ends");
        assert!(!children(this).contains(&pid));
    }

    #[test]
    fn a_process_has_its_own_number() {
        let own = std::process::id() as i32;
        assert!(numbers(own).contains(&own));
        assert!(numbers(0).is_empty());
    }

    #[test]
    fn a_timers_clock_is_told_by_its_number() {
        let text = "ID: 1\nsignal: 10/00000000cafe\nnotify: signal/pid.7\nClockID: -6\n\
                    ID: 11\nsignal: 10/0\nnotify: signal/tid.8\nClockID: -2\n";
        assert_eq!(clock_in(text, 1), Some(-6));
        assert_eq!(clock_in(text, 11), Some(-2));
        assert_eq!(clock_in(text, 2), None);
        assert_eq!(clock_in("", 1), None);
    }
}
