//! BPF programs that count what runs, and their maps.

use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aya::maps::{HashMap, Map, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, Pod, include_bytes_aligned};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use timeloom_abi::{HOST_OFFSET, NO_DEADLINE, PAGE_ADDRESS};
use timeloom_sys::shared_memory::SharedWords;
use timeloom_time::Instant;

use super::waiting::Wait;
use crate::clock::HostInstant;

/// BPF object file, compiled from `bpf/awake.bpf.c` by `scripts/bpf`.
static OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/awake.bpf.o");

/// Names of the BPF programs, each with its tracepoint.
const PROGRAMS: [(&str, &str); 13] = [
    ("on_waking", "sched_waking"),
    ("on_wakeup", "sched_wakeup"),
    ("on_wakeup_new", "sched_wakeup_new"),
    ("on_exec", "sched_process_exec"),
    ("on_raise", "softirq_raise"),
    ("on_entry", "softirq_entry"),
    ("on_exit", "softirq_exit"),
    ("on_queue", "workqueue_queue_work"),
    ("on_executed", "workqueue_execute_end"),
    ("on_dequeue", "qdisc_dequeue"),
    ("on_reset", "qdisc_reset"),
    ("on_destroy", "qdisc_destroy"),
    ("on_switch", "sched_switch"),
];

/// Parameters of the BPF programs.
pub(super) struct Setup {
    cgroup: u64,
    process: u32,
    asker: u32,
    wait: RangeInclusive<u64>,
    networks: Vec<u32>,
}

impl Setup {
    /// Returns the parameters for a session with this cgroup directory. The calling thread is the
    /// one that is not counted. `networks` are the inode numbers of the session's network namespaces.
    ///
    /// # Errors
    /// Fails if the directory does not exist any more, or if this process is not in the initial PID
    /// namespace, since its process identifiers then differ from the kernel's.
    pub(super) fn of_this_thread(
        cgroup: &Path,
        wait: &RangeInclusive<u64>,
        networks: Vec<u32>,
    ) -> io::Result<Self> {
        if std::fs::metadata("/proc/self/ns/pid")?.ino() != INITIAL_PID_NAMESPACE {
            return Err(io::Error::other(
                "this process is in a PID namespace of its own",
            ));
        }
        Ok(Self {
            cgroup: std::fs::metadata(cgroup)?.ino(),
            process: std::process::id(),
            asker: rustix::thread::gettid().as_raw_nonzero().get() as u32,
            wait: wait.clone(),
            networks,
        })
    }
}

/// Number of threads, softirqs, work items and network queues that are not at rest, with a count of
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// Returns true if nothing runs.
    pub(super) fn is_rest(self) -> bool {
        self.0 & (CHANGED - 1) == 0
    }
}

/// Increment for the count of changes (`CHANGED` in the BPF programs). The bits below it are the
/// number.
const CHANGED: u64 = 1 << 24;

/// Loaded and attached BPF programs. Dropping this value detaches them.
pub(super) struct Kernel {
    words: SharedWords,
    members: HashMap<MapData, u32, Member>,
    works: HashMap<MapData, u64, u64>,
    ran: RingBuf<MapData>,
    _programs: Ebpf,
}

impl Kernel {
    /// Loads and attaches the BPF programs.
    ///
    /// # Errors
    /// Fails if the kernel lacks BTF or one of the tracepoints, or refuses the programs.
    pub(super) fn load(setup: &Setup) -> io::Result<Self> {
        let btf = Btf::from_sys_fs().map_err(io::Error::other)?;
        let host_at = PAGE_ADDRESS + HOST_OFFSET as u64;
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("session_cgroup", &setup.cgroup, true)
            .override_global("supervisor", &setup.process, true)
            .override_global("asker", &setup.asker, true)
            .override_global("wait_begin", setup.wait.start(), true)
            .override_global("wait_end", setup.wait.end(), true)
            .override_global("host_at", &host_at, true)
            .load(OBJECT)
            .map_err(io::Error::other)?;
        let words = words(&programs)?;
        for (name, tracepoint) in PROGRAMS {
            let program = programs.program_mut(name).ok_or_else(|| lacks(name))?;
            let program: &mut BtfTracePoint = program.try_into().map_err(io::Error::other)?;
            program.load(tracepoint, &btf).map_err(io::Error::other)?;
            program.attach().map_err(io::Error::other)?;
        }
        let networks = programs
            .map_mut("networks")
            .ok_or_else(|| lacks("networks"))?;
        let mut networks: HashMap<_, u32, u32> = networks.try_into().map_err(io::Error::other)?;
        for network in &setup.networks {
            networks.insert(network, 1, 0).map_err(io::Error::other)?;
        }
        words.get(COUNTING).store(1, Ordering::SeqCst);
        let mut map = |name| programs.take_map(name).ok_or_else(|| lacks(name));
        Ok(Self {
            members: map("members")?.try_into().map_err(io::Error::other)?,
            works: map("works")?.try_into().map_err(io::Error::other)?,
            ran: map("ran")?.try_into().map_err(io::Error::other)?,
            words,
            _programs: programs,
        })
    }

    /// Returns the present value of the word.
    pub(super) fn word(&self) -> Word {
        Word(self.words.get(AWAKE).load(Ordering::SeqCst))
    }

    /// Returns true if softirqs or work items are not at rest, or queues hold frames back.
    pub(super) fn is_deferred(&self) -> bool {
        self.words.get(DEFERRED).load(Ordering::SeqCst) != 0
    }

    /// Returns the number of members and log entries for which there was no space in the maps, and of
    /// waits that could not be read.
    pub(super) fn lost(&self) -> u64 {
        self.words.get(LOST).load(Ordering::SeqCst)
    }

    /// Blocks until nothing runs, or `patience` has passed. Calls `ran` with each thread whose log
    /// entry arrives meanwhile.
    pub(super) fn sleep_until_rest(&mut self, patience: Duration, ran: impl FnMut(i32)) {
        self.words.get(SLEEPS).store(1, Ordering::SeqCst);
        // An unread log entry would end the wait at once.
        self.read_log(ran);
        if !self.word().is_rest() {
            let timeout = Timespec {
                tv_sec: patience.as_secs() as i64,
                tv_nsec: patience.subsec_nanos().into(),
            };
            let _ = poll(&mut [PollFd::new(&self.ran, PollFlags::IN)], Some(&timeout));
        }
        self.words.get(SLEEPS).store(0, Ordering::SeqCst);
    }

    /// Calls `ran` with each thread that has blocked or ended since the last call.
    pub(super) fn take_log(&mut self, ran: impl FnMut(i32)) {
        // This comes first, so that a thread that blocks from now on is logged again.
        self.words.get(ROUND).fetch_add(1, Ordering::SeqCst);
        self.read_log(ran);
    }

    fn read_log(&mut self, mut ran: impl FnMut(i32)) {
        while let Some(entry) = self.ran.next() {
            if let Ok(number) = <[u8; 4]>::try_from(&*entry)
                && let number @ 1.. = i32::from_ne_bytes(number)
            {
                ran(number);
            }
        }
    }

    /// Returns the wait of a sleeping thread; `None` if the thread does not wait in virtual time,
    /// or has ended.
    pub(super) fn wait_of(&self, thread: i32) -> Option<Wait> {
        let member = self.members.get(&(thread as u32), 0).ok()?;
        let deadline = (member.deadline != NO_DEADLINE).then_some(HostInstant {
            host: member.host as usize,
            at: Instant::from_ns(member.deadline),
        });
        (member.waits != 0).then_some(Wait {
            pid: member.tgid as i32,
            deadline,
        })
    }

    /// Returns true if the thread has woken up or blocked since the BPF programs count.
    pub(super) fn has_seen(&self, thread: i32) -> bool {
        self.members.get(&(thread as u32), 0).is_ok()
    }

    /// Returns the guest threads that run or are ready to run, in ascending order.
    pub(super) fn running_guests(&self) -> Vec<i32> {
        let members = self.members.iter().filter_map(Result::ok);
        let running = members.filter(|(_, member)| member.bits != 0 && member.runs != 0);
        let mut threads: Vec<i32> = running.map(|(thread, _)| thread as i32).collect();
        threads.sort_unstable();
        threads
    }

    /// Drops work items that were queued longer ago than `age`.
    pub(super) fn forget_works_before(&mut self, age: Duration) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let all: Vec<(u64, u64)> = self.works.iter().filter_map(Result::ok).collect();
        for (work, queued_ns) in all {
            if now_ns.saturating_sub(queued_ns) > age.as_nanos() as u64
                && self.works.remove(&work).is_ok()
            {
                self.words.get(DEFERRED).fetch_sub(1, Ordering::SeqCst);
                self.words
                    .get(AWAKE)
                    .fetch_add(CHANGED - 1, Ordering::SeqCst);
            }
        }
    }
}

fn lacks(name: &str) -> io::Error {
    io::Error::other(format!("the object for BPF lacks {name}"))
}

/// Equivalent of `struct member` in the BPF programs.
#[repr(C)]
#[derive(Clone, Copy)]
struct Member {
    bits: u32,
    tgid: u32,
    deadline: i64,
    host: u32,
    waits: u32,
    logged: u64,
    runs: u32,
    unused: u32,
}

// SAFETY: plain integers without padding.
unsafe impl Pod for Member {}

/// Maps `struct words` of the BPF programs.
fn words(programs: &Ebpf) -> io::Result<SharedWords> {
    match programs.map("words") {
        Some(Map::Array(data)) => SharedWords::of(data.fd()),
        _ => Err(lacks("words")),
    }
}

/// Indices of the fields of `struct words`.
const AWAKE: usize = 0;
const ROUND: usize = 1;
const SLEEPS: usize = 2;
const LOST: usize = 3;
const COUNTING: usize = 4;
const DEFERRED: usize = 6;

/// Inode number of the initial PID namespace: PROC_PID_INIT_INO of Linux, include/linux/proc_ns.h.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
