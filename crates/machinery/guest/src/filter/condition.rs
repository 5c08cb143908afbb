//! Conditions for the treatment of a call, compiled to steps of the filter.

use std::collections::BTreeMap;

use timeloom_abi::ADDRESS_HIGH_HALF;
use timeloom_abi::calls::{CARD_IOCTLS, CallCondition, IOCTLS, SOCKET_OPTIONS, TERMINAL_INPUT};

use super::{LOCAL, TRAPPED};
use crate::linux::bpf::{Label, Step, argument_high, argument_low};
use crate::phc;
use crate::timers::FIRST_POSIX;

/// Appends steps that jump to `label` for calls that meet the condition `when`, for a host with or
/// without a network card of the model.
pub(super) fn condition(steps: &mut Vec<Step>, when: CallCondition, label: Label, has_card: bool) {
    let given = |steps: &mut Vec<Step>, index: u32| {
        steps.push(Step::Load(argument_low(index)));
        steps.push(Step::IfAtLeast(1, label));
        steps.push(Step::Load(argument_high(index)));
        steps.push(Step::IfAtLeast(1, label));
    };
    // A negative `int` has its top bit set. The values between zero and those are positive.
    let skip = LOCAL + steps.len() as Label;
    let positive = |steps: &mut Vec<Step>, index: u32| {
        steps.push(Step::Load(argument_low(index)));
        steps.push(Step::IfAtLeast(0x8000_0000, skip));
        steps.push(Step::IfAtLeast(1, label));
        steps.push(Step::Mark(skip));
    };
    match when {
        CallCondition::Always => steps.push(Step::Goto(label)),
        CallCondition::Given(index) => given(steps, index),
        CallCondition::EitherGiven(one, other) => {
            given(steps, one);
            given(steps, other);
        }
        CallCondition::Positive(index) => positive(steps, index),
        CallCondition::NotZero(index) => {
            steps.push(Step::Load(argument_low(index)));
            steps.push(Step::IfAtLeast(1, label));
        }
        CallCondition::NotZeroOrGiven(timeout, pointer) => {
            steps.push(Step::Load(argument_low(timeout)));
            steps.push(Step::IfAtLeast(1, label));
            given(steps, pointer);
        }
        CallCondition::Null(index) => {
            steps.push(Step::Load(argument_low(index)));
            steps.push(Step::IfAtLeast(1, skip));
            steps.push(Step::Load(argument_high(index)));
            steps.push(Step::IfEqual(0, label));
            steps.push(Step::Mark(skip));
        }
        CallCondition::FutexWait => {
            steps.push(Step::Load(argument_low(1)));
            let waits = skip + 1;
            for command in FUTEX_WAITS {
                for flags in [0, 128, 256, 384] {
                    steps.push(Step::IfEqual(command | flags, waits));
                }
            }
            steps.push(Step::Goto(skip));
            steps.push(Step::Mark(waits));
            given(steps, 3);
            steps.push(Step::Mark(skip));
        }
        CallCondition::IntervalTimer => {
            steps.push(Step::Load(argument_low(0)));
            steps.push(Step::IfEqual(libc::ITIMER_REAL as u32, label));
            steps.push(Step::Goto(TRAPPED));
        }
        CallCondition::MayCancel => {
            steps.push(Step::Load(argument_low(1)));
            steps.push(Step::IfEqual(CANCEL_ON_SET, TRAPPED));
            steps.push(Step::Goto(label));
        }
        CallCondition::NotOfProcessor => {
            steps.push(Step::Load(argument_low(0)));
            for clock in [
                libc::CLOCK_PROCESS_CPUTIME_ID,
                libc::CLOCK_THREAD_CPUTIME_ID,
            ] {
                steps.push(Step::IfEqual(clock as u32, skip));
            }
            // Negative identifiers are those of processes, threads and clock devices. The kernel
            // refuses timers on clock devices.
            steps.push(Step::IfAtLeast(0x8000_0000, skip));
            steps.push(Step::Goto(label));
            steps.push(Step::Mark(skip));
        }
        CallCondition::OwnPosixTimer | CallCondition::PosixTimer => {
            steps.push(Step::Load(argument_low(0)));
            steps.push(Step::IfAtLeast(0x8000_0000, skip));
            steps.push(Step::IfAtLeast(FIRST_POSIX as u32, label));
            steps.push(Step::Mark(skip));
            if when == CallCondition::PosixTimer {
                steps.push(Step::Goto(TRAPPED));
            }
        }
        CallCondition::OneOf(index, values) => {
            steps.push(Step::Load(argument_low(index)));
            for &value in values {
                steps.push(Step::IfEqual(value, label));
            }
        }
        CallCondition::DeviceTime => {
            steps.push(Step::Load(argument_low(1)));
            for command in phc::COMMANDS.into_iter().chain(PACKET_STAMPS) {
                steps.push(Step::IfEqual(command, TRAPPED));
            }
            if has_card {
                for command in CARD_IOCTLS {
                    steps.push(Step::IfEqual(command, TRAPPED));
                }
            }
            for command in IOCTLS.iter().map(|ioctl| ioctl.command) {
                steps.push(Step::IfEqual(command, label));
            }
            for command in TERMINAL_INPUT {
                steps.push(Step::IfEqual(command, label));
            }
        }
        CallCondition::KeptAction => {
            steps.push(Step::Load(argument_low(0)));
            for signal in [libc::SIGSYS, libc::SIGSTKFLT] {
                steps.push(Step::IfEqual(signal as u32, label));
            }
            given(steps, 1);
        }
        CallCondition::SeccompOrTsc => {
            steps.push(Step::Load(argument_low(0)));
            for option in SECCOMP_OR_TSC {
                steps.push(Step::IfEqual(option, label));
            }
        }
        CallCondition::Range(address, length) => range(steps, address, length, label),
        CallCondition::FixedRange => {
            let fixed = skip + 1;
            steps.push(Step::Load(argument_low(3)));
            steps.push(Step::IfAnyOf(MAP_FIXED, fixed));
            steps.push(Step::Goto(skip));
            steps.push(Step::Mark(fixed));
            range(steps, 0, 1, label);
            steps.push(Step::Mark(skip));
        }
        CallCondition::MovedRange => {
            range(steps, 0, 1, label);
            range(steps, 4, 2, label);
        }
        CallCondition::AdvisedRange(advice) => {
            let harmful = skip + 1;
            steps.push(Step::Load(argument_low(2)));
            for &advice in advice {
                steps.push(Step::IfEqual(advice, harmful));
            }
            steps.push(Step::Goto(skip));
            steps.push(Step::Mark(harmful));
            range(steps, 0, 1, label);
            steps.push(Step::Mark(skip));
        }
        CallCondition::NewTime(flags) => {
            steps.push(Step::Load(argument_low(flags)));
            steps.push(Step::IfAnyOf(CLONE_NEWTIME, label));
        }
        CallCondition::NewTimeOrAny(flags) => {
            steps.push(Step::Load(argument_low(flags)));
            steps.push(Step::IfAnyOf(CLONE_NEWTIME, label));
            steps.push(Step::IfEqual(0, label));
        }
        CallCondition::SocketTime => {
            for (level, options) in socket_levels() {
                let this_level = LOCAL + steps.len() as Label;
                let next = NEXT_LEVEL + level;
                steps.push(Step::Load(argument_low(1)));
                steps.push(Step::IfEqual(level, this_level));
                steps.push(Step::Goto(next));
                steps.push(Step::Mark(this_level));
                steps.push(Step::Load(argument_low(2)));
                for (option, treated) in options {
                    let label = if treated { TRAPPED } else { label };
                    steps.push(Step::IfEqual(option, label));
                }
                steps.push(Step::Mark(next));
            }
        }
    }
}

/// Appends steps that jump to `label` for a memory range that may overlap
/// [`timeloom_abi::KEPT_RANGE`]. A range shorter than 4 GiB can overlap it only if the range
/// begins in the same 4 GiB, or in the 4 GiB below. `address` and `length` are numbers of
/// arguments.
fn range(steps: &mut Vec<Step>, address: u32, length: u32, label: Label) {
    steps.push(Step::Load(argument_high(address)));
    for half in [ADDRESS_HIGH_HALF, ADDRESS_HIGH_HALF - 1] {
        steps.push(Step::IfEqual(half, label));
    }
    steps.push(Step::Load(argument_high(length)));
    steps.push(Step::IfAtLeast(1, label));
}

/// Returns the options by level of socket options. The flag of an option is true if the image
/// handles it.
fn socket_levels() -> BTreeMap<u32, Vec<(u32, bool)>> {
    let own = SOCKET_TIME_OPTIONS.map(|option| (option, true));
    let mut levels = BTreeMap::from([(libc::SOL_SOCKET as u32, own.to_vec())]);
    for named in SOCKET_OPTIONS {
        let (level, option) = named.place;
        levels.entry(level).or_default().push((option, false));
    }
    levels
}

const NEXT_LEVEL: Label = 2 * LOCAL;

/// `ioctl` commands for a packet's timestamp: SIOCGSTAMP and SIOCGSTAMPNS, each with its old and
/// its new number.
pub(super) const PACKET_STAMPS: [u32; 4] = [0x8906, 0x8907, 0x8010_8906, 0x8010_8907];
/// Futex operations that wait: WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
pub(super) const FUTEX_WAITS: [u32; 5] = [0, 6, 9, 11, 13];
/// Flags of a timerfd that reports changes of its clock. The kernel refuses the report for timers
/// that are not absolute.
const CANCEL_ON_SET: u32 = (libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET) as u32;
/// Socket options that carry time: SO_RCVTIMEO, SO_SNDTIMEO and SO_TIMESTAMP, _NS, _ING, each with
/// its old and its new number.
pub(super) const SOCKET_TIME_OPTIONS: [u32; 10] = [20, 21, 29, 35, 37, 63, 64, 65, 66, 67];
pub(super) const MAP_FIXED: u32 = libc::MAP_FIXED as u32;
pub(super) const CLONE_NEWTIME: u32 = 0x80;
pub(super) const SECCOMP_OR_TSC: [u32; 4] = [
    libc::PR_GET_SECCOMP as u32,
    libc::PR_SET_SECCOMP as u32,
    libc::PR_GET_TSC as u32,
    libc::PR_SET_TSC as u32,
];
