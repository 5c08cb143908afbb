//! Initial retransmission timeout of TCP connections.
//!
//! The timeout is one second (TCP_TIMEOUT_INIT), and no setting changes it. But the kernel asks a
//! BPF program attached to a control group for the value, for each socket created in that group or
//! below it: type SOCK_OPS, operation BPF_SOCK_OPS_TIMEOUT_INIT. The kernel asks for a SYN and, on
//! a listening socket, for a SYN-ACK. The BPF program of this module replies with a number, and
//! ignores all other operations.
//!
//! Runs in which a second of the programs differs from a second of the machine use this.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::bpf_call::{BPF_LINK_CREATE, BPF_LINK_UPDATE, BPF_PROG_LOAD, LICENCE, LinkCreate, bpf};
use crate::clock::tick;

/// Initial TCP timeout of one control group. It applies until this value is dropped, or its process
/// ends.
#[derive(Debug)]
pub struct FirstTimeout {
    link: OwnedFd,
}

impl FirstTimeout {
    /// Sets the timeout for the sockets of `cgroup` (version 2), and of the groups below it that
    /// have no timeout of their own. The value is rounded up to whole kernel ticks and limited to
    /// two minutes. Connections that are already being opened are not affected.
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
        // SAFETY: the command reads its attributes, and returns a descriptor that we own.
        let link = unsafe { OwnedFd::from_raw_fd(bpf(BPF_LINK_CREATE, &link)?) };
        Ok(Self { link })
    }

    /// Replaces the timeout for connections opened from now on.
    ///
    /// # Errors
    /// Fails as the kernel does, for example if the group was removed. The previous timeout then
    /// remains in force.
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

/// Loads the BPF program with this timeout; the kernel verifies it.
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
    // SAFETY: the command reads its attributes and the data they point to, which outlives the call,
    // and returns a descriptor that we own.
    Ok(unsafe { OwnedFd::from_raw_fd(bpf(BPF_PROG_LOAD, &load)?) })
}

/// Builds the BPF program, which replies with `ticks`. The kernel runs the program of the socket's
/// own group before those of the groups above it; the first reply counts.
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

/// Converts a timeout to kernel ticks. Rounds up; returns at least one.
fn ticks(timeout: Duration) -> i32 {
    let tick_ns = u128::from(tick().as_ns().unsigned_abs());
    let ticks = timeout.as_nanos().div_ceil(tick_ns).max(1);
    ticks.try_into().unwrap_or(i32::MAX)
}

/// BPF instruction: `struct bpf_insn` of include/uapi/linux/bpf.h.
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination register in the low four bits, source register in the high four.
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

    /// Skips the next `count` instructions unless `register` equals `to`: BPF_JMP | BPF_JNE |
    /// BPF_K.
    const fn skip_unless_equal(register: u8, to: i32, count: i16) -> Self {
        Self::new(0x55, register, count, to)
    }

    /// Sets a register to a constant: BPF_ALU64 | BPF_MOV | BPF_K.
    const fn set(register: u8, to: i32) -> Self {
        Self::new(0xb7, register, 0, to)
    }

    /// Ends the program: BPF_JMP | BPF_EXIT.
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

// Roles of the registers. A program receives its context in the first argument register.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const QUESTION: u8 = 2;
const ANSWER: u8 = 3;

// Byte offsets of `op` and `reply` in the context, a `struct bpf_sock_ops`.
const QUESTION_OFFSET: i16 = 0;
const ANSWER_OFFSET: i16 = 4;

// From the same header.
const BPF_PROG_TYPE_SOCK_OPS: u32 = 13;
const BPF_CGROUP_SOCK_OPS: u32 = 3;
const BPF_SOCK_OPS_TIMEOUT_INIT: i32 = 1;

/// Name of the BPF program, as `bpftool` shows it.
const NAME: &[u8] = b"first_timeout";

/// union bpf_attr, as the commands read it; bytes beyond it count as zero.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    length: u32,
    instructions: u64,
    licence: u64,
    /// Level, size and address (64 bits) of the verifier's log: all zero, since no log is
    /// requested.
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
