//! Oracle for the filter, used by the tests and the fuzzer: a small interpreter of classic BPF, and
//! the expected result, computed from the table without the filter.

use std::sync::LazyLock;

use timeloom_abi::{IMAGE_ADDRESS, IMAGE_LIMIT, KEPT_RANGE};

use timeloom_abi::calls::{Call, IOCTLS, NEWEST, SOCKET_OPTIONS, TERMINAL_INPUT, rows};

use super::condition::{
    CLONE_NEWTIME, FUTEX_WAITS, MAP_FIXED, PACKET_STAMPS, SECCOMP_OR_TSC, SOCKET_TIME_OPTIONS,
};
use super::*;
use crate::phc;
use crate::timers::FIRST_POSIX;

/// Instruction addresses at which the image asks for the verdicts of a program's own filters.
pub(crate) const ASKING_ADDRESSES: [u64; 2] = [
    IMAGE_ADDRESS + verdict::FORESEE as u64,
    IMAGE_ADDRESS + verdict::JUDGE as u64,
];
pub(crate) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
pub(crate) const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// Returns the action of the filter on a call that a program started in a session makes at
/// `address`.
pub(crate) fn outcome(architecture: u32, number: i64, address: u64, args: [u64; 6]) -> u32 {
    static PROGRAM: LazyLock<Vec<sock_filter>> = LazyLock::new(|| program(Guest::Launched));
    run(&PROGRAM, architecture, number, address, args)
}

/// Returns the action like [`outcome`], in a session that emulates the time-stamp counter.
pub(crate) fn outcome_emulating(
    architecture: u32,
    number: i64,
    address: u64,
    args: [u64; 6],
) -> u32 {
    static PROGRAM: LazyLock<Vec<sock_filter>> = LazyLock::new(|| program(Guest::EmulatingTsc));
    run(&PROGRAM, architecture, number, address, args)
}

/// Returns the action like [`outcome`], in a session that shows virtual dates of files.
pub(crate) fn outcome_dating(number: i64, address: u64, args: [u64; 6]) -> u32 {
    static PROGRAM: LazyLock<Vec<sock_filter>> = LazyLock::new(|| program(Guest::DatingFiles));
    run(&PROGRAM, AUDIT_ARCH, number, address, args)
}

/// Returns the action like [`outcome`], on a host with a network card of the model.
#[cfg(test)]
pub(crate) fn outcome_with_card(number: i64, address: u64, args: [u64; 6]) -> u32 {
    static PROGRAM: LazyLock<Vec<sock_filter>> =
        LazyLock::new(|| program_on(Guest::Launched, true));
    run(&PROGRAM, AUDIT_ARCH, number, address, args)
}

/// Returns the actions on a call of an attached program, before its release and after.
pub(crate) fn outcomes_registered(number: i64, address: u64, args: [u64; 6]) -> [u32; 2] {
    static REGISTERED: LazyLock<Vec<sock_filter>> = LazyLock::new(|| program(Guest::Registered));
    static RELEASE: LazyLock<Vec<sock_filter>> = LazyLock::new(release_program);
    let run = |program| run(program, AUDIT_ARCH, number, address, args);
    let first = run(&REGISTERED);
    // If several filters apply, the kernel takes the strictest action: the least number, as a
    // signed one.
    let both = [first, run(&RELEASE)]
        .into_iter()
        .min_by_key(|action| *action as i32);
    [first, both.expect("two")]
}

/// Returns the expected action on a call, computed from the table without the filter.
pub(crate) fn by_the_table(guest: Guest, number: i64, address: u64, args: [u64; 6]) -> u32 {
    let mut rows = rows(number).peekable();
    if rows.peek().is_none() {
        return if number > NEWEST.into() {
            REFUSE
        } else {
            ALLOW
        };
    }
    let mut actions = rows.map(|row| by_row(guest, row, address, args));
    actions.find(|action| *action != ALLOW).unwrap_or(ALLOW)
}

/// Returns the expected action on a call according to one row of the table.
fn by_row(guest: Guest, call: &Call, address: u64, args: [u64; 6]) -> u32 {
    let emulating = call.emulating_tsc.filter(|_| guest == Guest::EmulatingTsc);
    let dating = call.file_times.filter(|_| guest == Guest::DatingFiles);
    let instead = emulating.or(dating);
    let (treatment, when) = match (instead, call.treatment) {
        (Some(when), _) => (Treatment::Trap, when),
        (None, Some(treatment)) => (treatment, call.when),
        (None, None) => return ALLOW,
    };
    let given = |index: u32| args[index as usize] != 0;
    let int = |index: u32| args[index as usize] as i32;
    let holds = match when {
        CallCondition::Always | CallCondition::IntervalTimer | CallCondition::MayCancel => true,
        CallCondition::Given(index) => given(index),
        CallCondition::EitherGiven(one, other) => given(one) || given(other),
        CallCondition::Positive(index) => int(index) > 0,
        CallCondition::NotZero(index) => int(index) != 0,
        CallCondition::NotZeroOrGiven(timeout, pointer) => int(timeout) != 0 || given(pointer),
        CallCondition::Null(index) => !given(index),
        CallCondition::FutexWait => {
            let command = args[1] as u32;
            given(3) && FUTEX_WAITS.contains(&(command & !384))
        }
        CallCondition::NotOfProcessor => !(matches!(int(0), 2 | 3) || int(0) < 0),
        CallCondition::OwnPosixTimer => int(0) >= FIRST_POSIX,
        CallCondition::PosixTimer => true,
        CallCondition::OneOf(index, values) => values.contains(&(args[index as usize] as u32)),
        CallCondition::DeviceTime => {
            let command = args[1] as u32;
            is_own_ioctl(command)
                || IOCTLS.iter().any(|ioctl| ioctl.command == command)
                || TERMINAL_INPUT.contains(&command)
        }
        CallCondition::KeptAction => given(1) || matches!(int(0), libc::SIGSYS | libc::SIGSTKFLT),
        CallCondition::SeccompOrTsc => SECCOMP_OR_TSC.contains(&(args[0] as u32)),
        CallCondition::SocketTime => {
            let place = (args[1] as u32, args[2] as u32);
            is_own_option(place) || SOCKET_OPTIONS.iter().any(|option| option.place == place)
        }
        CallCondition::Range(address, length) => may_reach(args, address, length),
        CallCondition::FixedRange => int(3) as u32 & MAP_FIXED != 0 && may_reach(args, 0, 1),
        CallCondition::MovedRange => may_reach(args, 0, 1) || may_reach(args, 4, 2),
        CallCondition::AdvisedRange(advice) => {
            advice.contains(&(int(2) as u32)) && may_reach(args, 0, 1)
        }
        CallCondition::NewTime(flags) => int(flags) as u32 & CLONE_NEWTIME != 0,
        CallCondition::NewTimeOrAny(flags) => {
            int(flags) == 0 || int(flags) as u32 & CLONE_NEWTIME != 0
        }
    };
    let inside = (IMAGE_ADDRESS..IMAGE_ADDRESS + IMAGE_LIMIT).contains(&address);
    // The image handles processor time, and timers that it can convert to virtual time.
    let treatment = match when {
        CallCondition::IntervalTimer if int(0) != 0 => Treatment::Trap,
        CallCondition::MayCancel if int(1) == 3 => Treatment::Trap,
        CallCondition::PosixTimer if int(0) < FIRST_POSIX => Treatment::Trap,
        CallCondition::DeviceTime if is_own_ioctl(args[1] as u32) => Treatment::Trap,
        CallCondition::SocketTime if is_own_option((args[1] as u32, args[2] as u32)) => {
            Treatment::Trap
        }
        _ => treatment,
    };
    match treatment {
        _ if !holds => ALLOW,
        Treatment::Refuse => REFUSE,
        Treatment::Ask(_) => ASK,
        Treatment::Trap if ASKING_ADDRESSES.contains(&address) => PROCEED,
        Treatment::Trap if inside => ALLOW,
        Treatment::Trap => TRAP,
    }
}

/// Returns true if the filter must treat the range as one that may overlap the clock page or the
/// image. `address` and `length` are numbers of arguments.
fn may_reach(args: [u64; 6], address: u32, length: u32) -> bool {
    let [address, length] = [address, length].map(|index| args[index as usize]);
    let near = [KEPT_RANGE.start >> 32, (KEPT_RANGE.start >> 32) - 1];
    near.contains(&(address >> 32)) || length >> 32 != 0
}

fn is_own_ioctl(command: u32) -> bool {
    phc::COMMANDS.contains(&command) || PACKET_STAMPS.contains(&command)
}

fn is_own_option((level, option): (u32, u32)) -> bool {
    level == 1 && SOCKET_TIME_OPTIONS.contains(&option)
}

/// Returns the expected actions on a call of an attached program, before its release and after.
pub(crate) fn by_the_table_registered(number: i64, address: u64, args: [u64; 6]) -> [u32; 2] {
    let inside = (IMAGE_ADDRESS..IMAGE_ADDRESS + IMAGE_LIMIT).contains(&address);
    let asks = asks_in_session_only(number);
    let before = match by_the_table(Guest::Registered, number, address, args) {
        ASK if asks && ASKING_ADDRESSES.contains(&address) => PROCEED,
        ASK if asks && inside => ALLOW,
        outcome => outcome,
    };
    // Of the two filters' actions the stricter applies, which is the trap.
    let after = if asks && before == ASK { TRAP } else { before };
    [before, after]
}

/// Returns true if the supervisor answers this call, but only until the program is released.
pub(crate) fn asks_in_session_only(number: i64) -> bool {
    rows(number).any(|call| {
        matches!(call.treatment, Some(Treatment::Ask(service)) if !service.outlasts_session())
    })
}

fn run(
    program: &[sock_filter],
    architecture: u32,
    number: i64,
    address: u64,
    args: [u64; 6],
) -> u32 {
    interpret(program, architecture, number, address, args).0
}

/// Returns the filter's action on a call, and the number of instructions that decided it.
pub(super) fn interpret(
    program: &[sock_filter],
    architecture: u32,
    number: i64,
    address: u64,
    args: [u64; 6],
) -> (u32, usize) {
    let mut data = Vec::new();
    data.extend((number as i32).to_ne_bytes());
    data.extend(architecture.to_ne_bytes());
    data.extend(address.to_ne_bytes());
    args.iter()
        .for_each(|argument| data.extend(argument.to_ne_bytes()));
    let (mut at, mut word) = (0usize, 0u32);
    for executed in 1.. {
        let step = program[at];
        at += 1;
        match (u32::from(step.code), step.k) {
            (0x20, k) => word = u32::from_ne_bytes(data[k as usize..][..4].try_into().unwrap()),
            (0x05, k) => at += k as usize,
            (0x15, k) => at += usize::from(if word == k { step.jt } else { step.jf }),
            (0x35, k) => at += usize::from(if word >= k { step.jt } else { step.jf }),
            (0x45, k) => at += usize::from(if word & k != 0 { step.jt } else { step.jf }),
            (0x06, k) => return (k, executed),
            other => panic!("{other:?} is no instruction that we emit"),
        }
    }
    unreachable!("a filter has no backward jumps")
}
