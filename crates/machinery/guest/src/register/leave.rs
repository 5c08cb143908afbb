//! Changes inside a process that is released. They are made by system calls in that process.

use std::fs;

use timeloom_abi::calls::{IMAGE_CALL, ImageCall};
use timeloom_abi::{PAGE_ADDRESS, PAGE_SIZE};

use super::worker::{SET_MODE_FILTER, Worker, write_filter};
use crate::error::GuestError;
use crate::filter;
use crate::timers::{HeldDescriptor, Leaving};

/// Replaces the session's clock page in the process by `page`, a descriptor of this process.
pub(super) fn exchange_page(
    worker: &mut Worker<'_>,
    scratch: u64,
    page: i32,
) -> Result<(), GuestError> {
    let page = worker.open(page, scratch)?;
    let args = [
        PAGE_ADDRESS,
        PAGE_SIZE as u64,
        libc::PROT_READ as u64,
        (libc::MAP_SHARED | libc::MAP_FIXED) as u64,
        page as u64,
        0,
    ];
    worker.call("replacing its clock page", libc::SYS_mmap, args)?;
    close(worker, page as u64)
}

/// Recreates POSIX timers, with the same identifiers, and the interval timer in the kernel.
pub(super) fn hand_back_timers(
    worker: &mut Worker<'_>,
    scratch: u64,
    timers: &[Leaving],
) -> Result<(), GuestError> {
    let restore = |worker: &mut Worker<'_>, on: u64| {
        let args = [PR_TIMER_CREATE_RESTORE_IDS, on, 0, 0, 0, 0];
        worker.call("keeping the number of a timer", libc::SYS_prctl, args)
    };
    let some_posix = timers.iter().any(|it| matches!(it, Leaving::Posix { .. }));
    if some_posix {
        restore(worker, 1)?;
    }
    let handed = timers.iter().try_for_each(|timer| match timer {
        Leaving::Posix {
            id,
            clock,
            notice,
            setting,
        } => {
            // Layout of `struct sigevent`: value, signal, kind of notification, thread.
            let (how, thread) = match notice {
                None => (libc::SIGEV_NONE, 0),
                Some(notice) => match &notice.thread {
                    Some(thread) => (libc::SIGEV_THREAD_ID, thread.number),
                    None => (libc::SIGEV_SIGNAL, 0),
                },
            };
            let of_notice = notice.as_ref();
            let (value, signal) = of_notice.map_or((0, 0), |it| (it.value, it.signal));
            let mut event = [0u8; 64];
            event[..8].copy_from_slice(&value.to_ne_bytes());
            event[8..12].copy_from_slice(&signal.to_ne_bytes());
            event[12..16].copy_from_slice(&how.to_ne_bytes());
            event[16..20].copy_from_slice(&thread.to_ne_bytes());
            worker.write(scratch, &event)?;
            worker.write(scratch + 64, &id.to_ne_bytes())?;
            let args = [*clock as u64, scratch, scratch + 64, 0, 0, 0];
            worker.call("making a timer", libc::SYS_timer_create, args)?;
            worker.write(scratch, &words(setting.to_itimerspec(), 1))?;
            let flags = if setting.absolute {
                libc::TIMER_ABSTIME as u64
            } else {
                0
            };
            let args = [*id as u64, flags, scratch, 0, 0, 0];
            worker
                .call("setting a timer", libc::SYS_timer_settime, args)
                .map(drop)
        }
        Leaving::Interval(setting) => {
            worker.write(scratch, &words(setting.to_itimerspec(), 1000))?;
            let args = [libc::ITIMER_REAL as u64, scratch, 0, 0, 0, 0];
            worker
                .call("setting a timer", libc::SYS_setitimer, args)
                .map(drop)
        }
    });
    if some_posix {
        restore(worker, 0)?;
    }
    handed
}

/// Replaces the session's timerfds by timerfds of the kernel, which the supervisor passes as the
/// gifts of these numbers. A timerfd is replaced under each of its descriptor numbers, and in each
/// epoll set.
pub(super) fn exchange_descriptors(
    worker: &mut Worker<'_>,
    scratch: u64,
    held: &[(HeldDescriptor, usize)],
) -> Result<(), GuestError> {
    let entries = if held.is_empty() {
        Vec::new()
    } else {
        epoll_entries(worker.pid)
    };
    for (held, gift) in held {
        let number = held.number as u64;
        let question = ImageCall::<usize>::Give { gift: *gift };
        let args = question.encode().map(|word| word as u64);
        let given = worker.call("getting a timer", IMAGE_CALL as i64, args)?;
        let watching: Vec<_> = entries.iter().filter(|it| it.watched == number).collect();
        for entry in &watching {
            let args = [entry.set, libc::EPOLL_CTL_DEL as u64, number, 0, 0, 0];
            // Another process that shares the epoll set may have changed it already.
            let _ = worker.call("changing an epoll set", libc::SYS_epoll_ctl, args);
        }
        let flags = if held.close_on_exec {
            libc::O_CLOEXEC as u64
        } else {
            0
        };
        let args = [given, number, flags, 0, 0, 0];
        worker.call("replacing a timer", libc::SYS_dup3, args)?;
        close(worker, given)?;
        for entry in &watching {
            worker.write(scratch, &entry.as_kernel())?;
            let args = [entry.set, libc::EPOLL_CTL_ADD as u64, number, scratch, 0, 0];
            match worker.call("changing an epoll set", libc::SYS_epoll_ctl, args) {
                Err(GuestError::System { source, .. })
                    if source.raw_os_error() == Some(libc::EEXIST) => {}
                other => drop(other?),
            }
        }
    }
    Ok(())
}

/// Installs the filter after which the thread needs no supervisor, except for an exec. If `for_all`
/// is true, installs it in all threads of the process. Returns false if that was not possible: a
/// thread that has its own filter needs a separate installation.
pub(super) fn install_release_filter(
    worker: &mut Worker<'_>,
    scratch: u64,
    for_all: bool,
) -> Result<bool, GuestError> {
    write_filter(worker, scratch, &filter::release_program())?;
    let flags = if for_all {
        TSYNC | SPEC_ALLOW
    } else {
        SPEC_ALLOW
    };
    let args = [SET_MODE_FILTER, flags, scratch, 0, 0, 0];
    // With TSYNC the kernel returns the identifier of a thread that cannot be synchronised.
    worker
        .call("installing the last filter", libc::SYS_seccomp, args)
        .map(|other| other == 0)
}

/// Entry of one of a process's epoll sets.
struct EpollEntry {
    /// Descriptor number of the epoll set.
    set: u64,
    /// Descriptor number that the set watches.
    watched: u64,
    events: u32,
    data: u64,
}

impl EpollEntry {
    /// Returns the bytes of a `struct epoll_event`. The data is placed according to the C ABI of
    /// the processor, except on x86-64, where it directly follows the events.
    fn as_kernel(&self) -> [u8; size_of::<libc::epoll_event>()] {
        let mut event = [0; size_of::<libc::epoll_event>()];
        event[..4].copy_from_slice(&self.events.to_ne_bytes());
        event[std::mem::offset_of!(libc::epoll_event, u64)..]
            .copy_from_slice(&self.data.to_ne_bytes());
        event
    }
}

/// Returns the entries of all epoll sets of a process. Parses the lines `tfd: 5 events: 19 data:
/// 7f00 …` in /proc/PID/fdinfo/FD.
fn epoll_entries(pid: i32) -> Vec<EpollEntry> {
    let sets = fs::read_dir(format!("/proc/{pid}/fd"));
    let sets = sets.into_iter().flatten().flatten().filter_map(|entry| {
        fs::read_link(entry.path())
            .is_ok_and(|to| to.as_os_str() == "anon_inode:[eventpoll]")
            .then(|| entry.file_name().to_str()?.parse::<u64>().ok())
            .flatten()
    });
    let mut entries = Vec::new();
    for set in sets {
        let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{set}")).unwrap_or_default();
        entries.extend(text.lines().filter_map(|line| epoll_entry(set, line)));
    }
    entries
}

fn epoll_entry(set: u64, line: &str) -> Option<EpollEntry> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let watched = words.next()?.parse().ok()?;
    let mut hexadecimal = |name: &str| {
        (words.next()? == name)
            .then(|| u64::from_str_radix(words.next()?, 16).ok())
            .flatten()
    };
    Some(EpollEntry {
        set,
        watched,
        events: hexadecimal("events:")? as u32,
        data: hexadecimal("data:")?,
    })
}

fn close(worker: &mut Worker<'_>, descriptor: u64) -> Result<(), GuestError> {
    let args = [descriptor, 0, 0, 0, 0, 0];
    worker
        .call("closing a descriptor", libc::SYS_close, args)
        .map(drop)
}

/// Returns the bytes of an `itimerspec` (unit 1 ns) or `itimerval` (unit 1000 ns). Rounds up to the
/// unit, since zero would disarm the timer.
fn words(setting: libc::itimerspec, unit_ns: i64) -> [u8; 32] {
    let split = |spec: libc::timespec| {
        let units = spec.tv_nsec / unit_ns + i64::from(spec.tv_nsec % unit_ns > 0);
        let per_s = 1_000_000_000 / unit_ns;
        [spec.tv_sec + units / per_s, units % per_s]
    };
    let mut bytes = [0u8; 32];
    let words = [split(setting.it_interval), split(setting.it_value)];
    for (index, word) in words.into_iter().flatten().enumerate() {
        bytes[8 * index..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// PR_TIMER_CREATE_RESTORE_IDS of Linux 6.15: lets a process create timers with chosen identifiers.
const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
/// SECCOMP_FILTER_FLAG_TSYNC: applies the filter to all threads of the process.
const TSYNC: u64 = 1;
/// SECCOMP_FILTER_FLAG_SPEC_ALLOW: without this flag every call would be slower.
const SPEC_ALLOW: u64 = 1 << 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_sets_are_read_as_the_kernel_tells_them() {
        // Set of this process, in the kernel's format.
        // SAFETY: plain calls; `event` is read.
        let (set, watched) = unsafe {
            let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let watched = libc::eventfd(0, libc::EFD_CLOEXEC);
            let mut event = libc::epoll_event {
                events: (libc::EPOLLIN | libc::EPOLLET) as u32,
                u64: 0x1234_5678_9abc_def0,
            };
            let added = libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, watched, &raw mut event);
            assert_eq!(added, 0);
            (set, watched)
        };
        let entries = epoll_entries(std::process::id() as i32);
        let entry = entries.iter().find(|entry| entry.set == set as u64);
        let entry = entry.expect("the set of this test");
        assert_eq!(entry.watched, watched as u64);
        assert_eq!(entry.data, 0x1234_5678_9abc_def0);
        let expected = (libc::EPOLLIN | libc::EPOLLET) as u32;
        assert_eq!(entry.events & expected, expected);
        // SAFETY: ours.
        unsafe {
            libc::close(set);
            libc::close(watched);
        }
        assert!(epoll_entry(3, "pos:\t0").is_none());
        assert!(epoll_entry(3, "tfd: 5 events: zz data: 1").is_none());
    }
}
