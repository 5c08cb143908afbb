//! Initial retransmission timeout of TCP connections.
//!
//! It is one second (TCP_TIMEOUT_INIT), and no setting changes it. The kernel asks a BPF program
//! attached to a control group for the value, for each socket created in that group or below it:
//! type SOCK_OPS, operation BPF_SOCK_OPS_TIMEOUT_INIT. It asks for a SYN and, on a listening
//! socket, for a SYN-ACK. The program here replies with a number, and ignores all other operations.
//!
//! A runner uses this where seconds of the machine and of its programs differ.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::bpf_call::{BPF_LINK_CREATE, BPF_LINK_UPDATE, BPF_PROG_LOAD, LICENCE, LinkCreate, bpf};
use crate::clock::tick;

/// Timeout of one control group. It holds until this is dropped, or its process ends.
#[derive(Debug)]
pub struct FirstTimeout {
    link: OwnedFd,
}

impl FirstTimeout {
    /// Sets the timeout for the sockets of `cgroup` (version 2), and of the groups below it that
    /// have none of their own: in whole kernel ticks, at most two minutes. Connections being opened
    /// already are not affected.
    ///
    /// # Errors
    /// Fails if the kernel has no BPF, or none for control groups (CONFIG_CGROUP_BPF), or is older
    /// than Linux 5.7, or if this process may not load the program (CAP_BPF and CAP_NET_ADMIN).
    pub fn attach(cgroup: &Path, timeout: Duration) -> io::Result<Self> {
        let program = load(timeout)?;
        let cgroup = File::open(cgroup)?;
        let link = LinkCreate {
            program: program.as_raw_fd() as u32,
            target: cgroup.as_raw_fd() as u32,
            attach_type: BPF_CGROUP_SOCK_OPS,
            flags: 0,
        };
        // SAFETY: the command reads its attributes, and returns a descriptor that is ours.
        let link = unsafe { OwnedFd::from_raw_fd(bpf(BPF_LINK_CREATE, &link)?) };
        Ok(Self { link })
    }

    /// Replaces the timeout from now on.
    ///
    /// # Errors
    /// Fails as the kernel does, for example if the group was removed; the old timeout then
    /// remains.
    pub fn change(&self, timeout: Duration) -> io::Result<()> {
        let program = load(timeout)?;
        let update = LinkUpdate {
            link: self.link.as_raw_fd() as u32,
            program: program.as_raw_fd() as u32,
            flags: 0,
            old_program: 0,
        };
        // SAFETY: the command reads its attributes.
        unsafe { bpf(BPF_LINK_UPDATE, &update) }.map(drop)
    }
}

/// Loads the program, which the kernel verifies.
fn load(timeout: Duration) -> io::Result<OwnedFd> {
    let instructions = answering(ticks(timeout));
    let mut name = [0; 16];
    name[..NAME.len()].copy_from_slice(NAME);
    let load = ProgramLoad {
        kind: BPF_PROG_TYPE_SOCK_OPS,
        length: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log: [0; 4],
        kernel_version: 0,
        flags: 0,
        name,
    };
    // SAFETY: the command reads its attributes and the data they point at, which outlives it, and
    // returns a descriptor that is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(bpf(BPF_PROG_LOAD, &load)?) })
}

/// Builds the program. The kernel runs that of the socket's own group before those above it; the
/// first reply stands.
fn answering(ticks: i32) -> [Instruction; 8] {
    [
        Instruction::load(QUESTION, CONTEXT, QUESTION_OFFSET),
        Instruction::skip_unless_equal(QUESTION, BPF_SOCK_OPS_TIMEOUT_INIT, 4),
        Instruction::load(ANSWER, CONTEXT, ANSWER_OFFSET),
        Instruction::skip_unless_equal(ANSWER, 0, 2),
        Instruction::set(ANSWER, ticks),
        Instruction::store(CONTEXT, ANSWER_OFFSET, ANSWER),
        Instruction::set(RESULT, 1), // not refused
        Instruction::exit(),
    ]
}

/// Converts to ticks: rounded up, and at least one.
fn ticks(timeout: Duration) -> i32 {
    let tick_ns = u128::from(tick().as_ns().unsigned_abs());
    let ticks = timeout.as_nanos().div_ceil(tick_ns).max(1);
    ticks.try_into().unwrap_or(i32::MAX)
}

/// Linux, include/uapi/linux/bpf.h: struct bpf_insn.
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination register in the lower half, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    /// Loads 32 bits from memory: BPF_LDX | BPF_W | BPF_MEM.
    const fn load(into: u8, from: u8, offset: i16) -> Self {
        Self::new(0x61, into | (from << 4), offset, 0)
    }

    /// Stores 32 bits to memory: BPF_STX | BPF_W | BPF_MEM.
    const fn store(at: u8, offset: i16, what: u8) -> Self {
        Self::new(0x63, at | (what << 4), offset, 0)
    }

    /// Skips the next `count` instructions unless equal: BPF_JMP | BPF_JNE | BPF_K.
    const fn skip_unless_equal(register: u8, to: i32, count: i16) -> Self {
        Self::new(0x55, register, count, to)
    }

    /// BPF_ALU64 | BPF_MOV | BPF_K.
    const fn set(register: u8, to: i32) -> Self {
        Self::new(0xb7, register, 0, to)
    }

    /// BPF_JMP | BPF_EXIT.
    const fn exit() -> Self {
        Self::new(0x95, 0, 0, 0)
    }

    const fn new(code: u8, registers: u8, offset: i16, immediate: i32) -> Self {
        Self {
            code,
            registers,
            offset,
            immediate,
        }
    }
}

// Roles of the registers; a program finds its context in the first.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const QUESTION: u8 = 2;
const ANSWER: u8 = 3;

// Offsets in the context, struct bpf_sock_ops: `op` and `reply`.
const QUESTION_OFFSET: i16 = 0;
const ANSWER_OFFSET: i16 = 4;

// From the same header.
const BPF_PROG_TYPE_SOCK_OPS: u32 = 13;
const BPF_CGROUP_SOCK_OPS: u32 = 3;
const BPF_SOCK_OPS_TIMEOUT_INIT: i32 = 1;

/// Name shown by `bpftool`.
const NAME: &[u8] = b"first_timeout";

/// union bpf_attr, as the commands read it; bytes beyond it count as zero.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    length: u32,
    instructions: u64,
    licence: u64,
    /// No log: its level, its size, and its address (64 bits).
    log: [u32; 4],
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_never_shorter_than_asked_and_never_none() {
        let tick = Duration::from_nanos(tick().as_ns() as u64);
        assert!(tick < Duration::from_secs(1), "no kernel ticks that slowly");
        assert_eq!(ticks(Duration::ZERO), 1);
        assert_eq!(ticks(tick), 1);
        assert_eq!(ticks(tick * 7 + Duration::from_nanos(1)), 8);
        assert_eq!(ticks(Duration::MAX), i32::MAX);
    }
}
