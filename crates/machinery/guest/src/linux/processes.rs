//! Information about processes, read from /proc.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{major, minor};
use timeloom_text::one_line;

use crate::arch::VFORK;
use crate::linux::memory;
use crate::linux::pidfd::Pidfd;
use crate::linux::spare::with_spare;

/// Returns the numeric names in a directory of /proc; empty if the directory does not exist.
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

/// Returns true if the error means that the process has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Returns the identifiers of all processes.
pub(crate) fn all() -> Vec<i32> {
    try_all().unwrap_or_default()
}

/// Returns all processes like [`all`], or an error instead of an incomplete list.
///
/// # Errors
/// Fails if no descriptor or no memory is left.
pub(crate) fn try_all() -> io::Result<Vec<i32>> {
    numbers_in("/proc")
}

/// Returns the identifiers of a process's threads; empty if the process has ended.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    try_threads(pid).unwrap_or_default()
}

/// Returns all threads like [`threads`], or an error instead of an incomplete list.
///
/// # Errors
/// Fails like [`try_all`].
pub(crate) fn try_threads(pid: i32) -> io::Result<Vec<i32>> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// Returns the name of a process, as in `ps`. A program can choose its name (PR_SET_NAME), so
/// characters upon which a terminal would act are replaced by question marks.
pub(crate) fn name(pid: i32) -> String {
    let name = with_spare(|| fs::read_to_string(format!("/proc/{pid}/comm")));
    let Ok(name) = name else {
        return "?".into();
    };
    one_line(name.trim_end())
}

/// Parent and process group of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// Identifier of the parent.
    pub(crate) parent: i32,
    /// Identifier of the process group.
    pub(crate) group: i32,
}

/// Returns the parent and process group of a process; `None` if the process has ended.
pub(crate) fn family(pid: i32) -> Option<Family> {
    let stat = with_spare(|| fs::read_to_string(format!("/proc/{pid}/stat"))).ok()?;
    // The name, in parentheses, may contain any character. After it follow state, parent and group.
    let after = &stat[stat.rfind(')')? + 1..];
    let mut fields = after.split_ascii_whitespace().skip(1);
    let mut next = || fields.next()?.parse().ok();
    Some(Family {
        parent: next()?,
        group: next()?,
    })
}

/// Returns the identifier of the process to which a thread belongs.
pub(crate) fn process_of(thread: i32) -> i32 {
    status_field(thread, "Tgid:")
        .and_then(|text| text.parse().ok())
        .unwrap_or(thread)
}

/// Returns the identifier of a thread's tracer; `None` if the thread is not traced.
pub(crate) fn tracer_of(thread: i32) -> Option<i32> {
    let tracer = status_field(thread, "TracerPid:")?.parse().ok()?;
    (tracer != 0).then_some(tracer)
}

/// Returns the identifiers of a process in our PID namespace and in the namespaces nested in it,
/// outermost first.
pub(crate) fn numbers(pid: i32) -> Vec<i32> {
    let text = status_field(pid, "NSpid:").unwrap_or_default();
    let numbers = text.split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// State of one signal for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalState {
    /// True if the signal is pending, for the thread or for its process.
    pub(crate) is_pending: bool,
    /// True if the kernel would discard the signal now. This does not hold while the thread waits
    /// for the signal (`sigwaitinfo`): its status then shows the signal as neither blocked nor
    /// waited for.
    pub(crate) is_ignored: bool,
}

/// Returns the state of a signal for a thread. If the thread has ended, both flags are false or as
/// for the signal's default action.
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

/// Returns the effective capabilities of a thread as a bit set. They apply in the thread's own user
/// namespace.
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

/// Returns true if the thread's user namespace is ours, so that its capabilities apply there.
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

/// Returns the thread of a process that has this number in the process's PID namespace, which may
/// differ from ours. The result is its number in our namespace.
pub(crate) fn thread_as_it_counts(pid: i32, number: i32) -> Option<i32> {
    threads(pid).into_iter().find(|&thread| {
        let numbers = status_field(thread, "NSpid:");
        let innermost = numbers
            .as_deref()
            .and_then(|all| all.split_whitespace().last());
        innermost.and_then(|text| text.parse().ok()) == Some(number)
    })
}

/// Returns the scheduler state of a process, as in /proc/PID/stat; `None` if the process has ended.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = with_spare(|| fs::read_to_string(format!("/proc/{pid}/stat"))).ok()?;
    behind_name(&stat)?.chars().next()
}

/// Returns the scheduler state of a thread; `None` if the thread has ended. Faster than [`state`]:
/// the file of a process contains sums over all its threads.
///
/// # Errors
/// Fails if no descriptor or no memory is left.
pub(crate) fn thread_state(thread: i32) -> io::Result<Option<char>> {
    let path = format!("/proc/{thread}/task/{thread}/stat");
    match with_spare(|| fs::read_to_string(&path)) {
        Ok(stat) => Ok(behind_name(&stat).and_then(|rest| rest.chars().next())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the children that a thread has started and that were not reaped. Empty if the kernel
/// does not list them (CONFIG_PROC_CHILDREN).
pub(crate) fn children(thread: i32) -> Vec<i32> {
    let path = format!("/proc/{thread}/task/{thread}/children");
    let text = with_spare(|| fs::read_to_string(&path)).unwrap_or_default();
    let numbers = text.split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Returns true if a process is about to end, and its parent has not been notified yet.
pub(crate) fn is_ending(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| is_ending_in(&stat).unwrap_or(false))
}

/// Parses /proc/PID/stat, whose third field is the state and whose ninth has the kernel's flags.
fn is_ending_in(stat: &str) -> Option<bool> {
    let mut fields = behind_name(stat)?.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u32 = fields.nth(5)?.parse().ok()?;
    Some(flags & PF_EXITING != 0 && !matches!(state, "Z" | "X"))
}

/// PF_EXITING of <linux/sched.h>.
const PF_EXITING: u32 = 4;

/// Returns the part of /proc/PID/stat after the name, which begins with the third field.
pub(crate) fn behind_name(stat: &str) -> Option<&str> {
    // The name, in parentheses, may contain any character.
    Some(stat[stat.rfind(')')? + 1..].trim_start())
}

/// Returns true if a thread in uninterruptible sleep is in a call that has created a process: it
/// waits for a vfork child.
pub(crate) fn waits_for_vfork_child(thread: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
    let number = text
        .split_ascii_whitespace()
        .next()
        .and_then(|number| number.parse().ok());
    number.is_some()
        && (number == VFORK || matches!(number, Some(libc::SYS_clone | libc::SYS_clone3)))
}

/// Memfd that a process has mapped.
pub(crate) struct MappedMemfd {
    pub(crate) start: u64,
    pub(crate) writable: bool,
    /// Name given by the memfd's creator, up to the first space.
    pub(crate) name: String,
}

/// Returns the memfds mapped by a process whose names begin with `prefix`. Ordinary files of such a
/// name are ignored, wherever they are: these names identify processes that are then stopped or
/// killed.
pub(crate) fn memfds_of(pid: i32, prefix: &str) -> Vec<MappedMemfd> {
    try_memfds_of(pid, prefix).unwrap_or_default()
}

/// Returns all memfds like [`memfds_of`], or an error instead of an incomplete list.
///
/// # Errors
/// Fails if no descriptor is left. If another user's process hides its mappings, it cannot be a
/// guest of ours, and there is no error.
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

/// Parses /proc/PID/maps: `START-END r--s OFFSET DEVICE INODE /memfd:NAME (deleted)`.
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

/// Returns the device number of the file system in which the kernel keeps memfds. It has no named
/// files.
fn memfd_device() -> Option<&'static str> {
    static DEVICE: OnceLock<String> = OnceLock::new();
    if let Some(known) = DEVICE.get() {
        return Some(known);
    }
    // A failure because no descriptor is left is not cached, so the next call tries again.
    let memfd = memory::memfd(c"timeloom-device").ok()?;
    let device = memfd.metadata().ok()?.dev();
    let text = format!("{:02x}:{:02x}", major(device), minor(device));
    Some(DEVICE.get_or_init(|| text))
}

/// Returns all processes except this one for which `is_so` returns true.
pub(crate) fn others(is_so: impl Fn(i32) -> bool) -> Vec<i32> {
    let own = std::process::id() as i32;
    let mut found = all();
    found.retain(|&pid| pid != own && is_so(pid));
    found
}

/// Kills a process if `is_so` returns true for it. A later process with the same identifier is
/// never killed. Returns true if the process was killed.
pub(crate) fn kill_if(pid: i32, is_so: impl Fn(i32) -> bool) -> bool {
    let held = with_spare(|| Pidfd::of_process(pid));
    held.is_ok_and(|held| is_so(pid) && held.send(libc::SIGKILL).is_ok())
}

/// Returns the time namespace of a process, in the form of its link in /proc.
pub(crate) fn time_namespace(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/time")).ok()
}

/// Returns true if `setns` with this descriptor could move a thread into a time namespace other
/// than its own. The descriptor is then one of a time namespace, or of a process in another one.
pub(crate) fn leads_to_other_time(thread: i32, descriptor: i32) -> bool {
    let Ok(link) = fs::read_link(format!("/proc/{thread}/fd/{descriptor}")) else {
        return false;
    };
    let led_to = if link.to_string_lossy().starts_with("time:[") {
        Some(link)
    } else {
        let path = format!("/proc/{thread}/fdinfo/{descriptor}");
        let text = fs::read_to_string(path).unwrap_or_default();
        // For a pidfd, this is the process's identifier in our PID namespace.
        let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"));
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        pid.and_then(time_namespace)
    };
    led_to.is_some() && led_to != time_namespace(thread)
}

/// Returns the clock identifier of a POSIX timer that the kernel keeps for a process; `None` if
/// there is no such timer.
pub(crate) fn clock_of_timer(pid: i32, timer: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/timers")).ok()?;
    clock_in(&text, timer)
}

/// Parses /proc/PID/timers, in which a timer has a line `ID: 0` and, below it, a line `ClockID:
/// -6`.
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
    fn a_name_with_terminal_control_characters_is_shown_without_them() {
        let named = std::thread::Builder::new().name("a\u{1b}[2J\u{202e}b\n".to_owned());
        let its = named.spawn(|| name(rustix::thread::gettid().as_raw_nonzero().get()));
        let its = its.expect("a thread").join().expect("no panic");
        assert_eq!(its, "a?[2J?b");
    }

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
    fn a_process_is_ending_until_its_parent_has_waited() {
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
