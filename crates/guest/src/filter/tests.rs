//! The filter's program, run by a small interpreter of classic BPF.

use timeloom_page::{IMAGE_ADDRESS, IMAGE_LIMIT};

use super::*;

/// What the kernel would do with a call made at `address`.
fn outcome(architecture: u32, number: i64, address: u64, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend((number as i32).to_ne_bytes());
    data.extend(architecture.to_ne_bytes());
    data.extend(address.to_ne_bytes());
    args.iter()
        .for_each(|argument| data.extend(argument.to_ne_bytes()));
    let program = program();
    let (mut at, mut word) = (0usize, 0u32);
    loop {
        let step = program[at];
        at += 1;
        match (u32::from(step.code), step.k) {
            (0x20, k) => word = u32::from_ne_bytes(data[k as usize..][..4].try_into().unwrap()),
            (0x05, k) => at += k as usize,
            (0x15, k) => at += usize::from(if word == k { step.jt } else { step.jf }),
            (0x35, k) => at += usize::from(if word >= k { step.jt } else { step.jf }),
            (0x06, k) => return k,
            other => panic!("{other:?} is no instruction that we emit"),
        }
    }
}

fn native(number: i64, args: [u64; 6]) -> u32 {
    outcome(AUDIT_ARCH_X86_64, number, 0x5555_0000_1000, args)
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const TRAP: u32 = libc::SECCOMP_RET_TRAP;
const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;

#[test]
fn calls_without_time_pass_by_their_number_alone() {
    for number in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_mmap,
        libc::SYS_getpid,
        libc::SYS_rt_sigreturn,
        9999,
    ] {
        assert_eq!(native(number, [u64::MAX; 6]), ALLOW, "{number}");
    }
}

#[test]
fn a_timeout_makes_the_difference() {
    let pointer = 0x7fff_0000_0000; // low half zero: both halves count
    for (number, without, with) in [
        (libc::SYS_poll, [1, 1, 0, 0, 0, 0], [1, 1, 5, 0, 0, 0]),
        (
            libc::SYS_poll,
            [1, 1, -1i32 as u32 as u64, 0, 0, 0],
            [1, 1, i32::MAX as u64, 0, 0, 0],
        ),
        (
            libc::SYS_ppoll,
            [1, 1, 0, 0, 0, 0],
            [1, 1, pointer, 0, 0, 0],
        ),
        (
            libc::SYS_ppoll,
            [1, 1, 0, 0, 0, 0],
            [1, 1, 0, pointer, 0, 0],
        ),
        (
            libc::SYS_select,
            [1, 1, 1, 1, 0, 0],
            [1, 1, 1, 1, pointer, 0],
        ),
        (
            libc::SYS_futex,
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, pointer, 0, 0],
        ),
        (
            libc::SYS_futex,
            [1, 1, 0, pointer, 0, 0],
            [1, 9 | 128 | 256, 0, pointer, 0, 0],
        ),
        (
            libc::SYS_recvmmsg,
            [1, 1, 1, 0, 0, 0],
            [1, 1, 1, 0, pointer, 0],
        ),
        (
            libc::SYS_rt_sigprocmask,
            [0, 0, pointer, 8, 0, 0],
            [0, pointer, 0, 8, 0, 0],
        ),
    ] {
        assert_eq!(
            native(number, without),
            ALLOW,
            "{} {without:x?}",
            name_of(number)
        );
        assert_eq!(native(number, with), TRAP, "{} {with:x?}", name_of(number));
    }
}

#[test]
fn the_image_may_make_the_calls_that_it_stands_for() {
    let sleep = |address| {
        outcome(
            AUDIT_ARCH_X86_64,
            libc::SYS_clock_nanosleep,
            address,
            [1; 6],
        )
    };
    assert_eq!(sleep(IMAGE_ADDRESS), ALLOW);
    assert_eq!(sleep(IMAGE_ADDRESS + IMAGE_LIMIT - 1), ALLOW);
    for outside in [
        IMAGE_ADDRESS - 1,
        IMAGE_ADDRESS + IMAGE_LIMIT,
        IMAGE_ADDRESS + (1 << 32),
        IMAGE_ADDRESS & 0xffff_ffff,
    ] {
        assert_eq!(sleep(outside), TRAP, "{outside:x}");
    }
}

#[test]
fn the_supervisor_is_asked_about_execs_and_what_is_not_handled() {
    assert_eq!(native(libc::SYS_execve, [1; 6]), ASK);
    assert_eq!(native(libc::SYS_clock_settime, [0; 6]), ASK);
    let set_timeout = |level, option| native(libc::SYS_setsockopt, [3, level, option, 0, 0, 0]);
    assert_eq!(set_timeout(1, 20), TRAP, "SO_RCVTIMEO");
    assert_eq!(set_timeout(6, 20), ALLOW, "another level's option 20");
    assert_eq!(set_timeout(1, 2), ALLOW, "SO_REUSEADDR");
    assert_eq!(
        native(libc::SYS_utimes, [1, 0, 0, 0, 0, 0]),
        TRAP,
        "set to now"
    );
    assert_eq!(
        native(libc::SYS_utimes, [1, 1 << 32, 0, 0, 0, 0]),
        ALLOW,
        "set to a given time"
    );
}

#[test]
fn other_ways_into_the_kernel_are_closed() {
    assert_eq!(outcome(0x4000_0003, 1, 0, [0; 6]), REFUSE, "int 0x80");
    assert_eq!(native(0x4000_0000 | libc::SYS_read, [0; 6]), REFUSE, "x32");
    assert_eq!(native(libc::SYS_clone3, [1; 6]), REFUSE);
}

#[test]
fn no_call_is_listed_twice() {
    for (index, entry) in CALLS.iter().enumerate() {
        assert!(
            CALLS[..index].iter().all(|other| other.0 != entry.0),
            "{}",
            entry.1
        );
    }
}
