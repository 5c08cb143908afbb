//! Tests of the filter against the table, and against the form that the kernel requires.

use timeloom_abi::{IMAGE_ADDRESS, IMAGE_LIMIT};

use timeloom_abi::calls::{CARD_IOCTLS, Call, IOCTLS, SOCKET_OPTIONS, TERMINAL_INPUT};

use super::condition::PACKET_STAMPS;
use super::oracle::*;
use super::*;
use crate::timers::FIRST_POSIX;

fn native(number: i64, args: [u64; 6]) -> u32 {
    outcome(AUDIT_ARCH, number, 0x5555_0000_1000, args)
}

#[test]
fn calls_without_time_pass_by_their_number_alone() {
    for number in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_getpid,
        i64::from(NEWEST),
    ] {
        assert_eq!(native(number, [u64::MAX; 6]), ALLOW, "{number}");
    }
}

#[test]
fn a_timeout_makes_the_difference() {
    let pointer = 0x7fff_0000_0000; // low half zero: both halves count
    for (number, without, with) in [
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

#[cfg(target_arch = "x86_64")]
#[test]
fn old_calls_trap_as_their_successors_do() {
    for (number, without, with) in [
        (libc::SYS_poll, [1, 1, 0, 0, 0, 0], [1, 1, 5, 0, 0, 0]),
        (
            libc::SYS_poll,
            [1, 1, -1i32 as u32 as u64, 0, 0, 0],
            [1, 1, i32::MAX as u64, 0, 0, 0],
        ),
        (
            libc::SYS_select,
            [1, 1, 1, 1, 0, 0],
            [1, 1, 1, 1, 0x7fff_0000_0000, 0],
        ),
        // One case has explicit times, the other the present time.
        (
            libc::SYS_utimes,
            [1, 1 << 32, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
        ),
    ] {
        assert_eq!(native(number, without), ALLOW, "{}", name_of(number));
        assert_eq!(native(number, with), TRAP, "{}", name_of(number));
    }
}

#[test]
fn the_image_may_make_the_calls_that_it_stands_for() {
    let sleep = |address| outcome(AUDIT_ARCH, libc::SYS_clock_nanosleep, address, [1; 6]);
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
fn execs_and_unhandled_calls_notify_the_supervisor() {
    assert_eq!(native(libc::SYS_execve, [1; 6]), ASK);
    assert_eq!(native(libc::SYS_clock_settime, [0; 6]), ASK);
    let set_timeout = |level, option| native(libc::SYS_setsockopt, [3, level, option, 0, 0, 0]);
    assert_eq!(set_timeout(1, 20), TRAP, "SO_RCVTIMEO");
    assert_eq!(set_timeout(6, 20), ALLOW, "another level's option 20");
    assert_eq!(set_timeout(1, 2), ALLOW, "SO_REUSEADDR");
}

/// A range that cannot overlap the clock page or the image passes, even if it is very long.
#[test]
fn ranges_of_memory_pass_unless_they_may_reach_the_image() {
    let far = [0x5555_0000_0000, 0x7fff_f000_0000];
    let (page, vdso) = (timeloom_abi::PAGE_ADDRESS, timeloom_abi::VDSO_ADDRESS);
    for number in [libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mmap] {
        let of = |address, length, flags| native(number, [address, length, 3, flags, 0, 0]);
        let fixed = libc::MAP_FIXED as u64;
        for address in far {
            assert_eq!(of(address, 0xffff_f000, fixed), ALLOW, "{number}");
            assert_eq!(of(address, 1 << 32, fixed), TRAP, "{number}");
        }
        for address in [page, vdso, IMAGE_ADDRESS, vdso - 0x1000] {
            assert_eq!(of(address, 0x1000, fixed), TRAP, "{number} {address:x}");
        }
    }
    let maps = |flags: i32| native(libc::SYS_mmap, [page, 0x1000, 3, flags as u64, 0, 0]);
    assert_eq!(maps(libc::MAP_PRIVATE), ALLOW);
    assert_eq!(
        maps(libc::MAP_FIXED_NOREPLACE),
        ALLOW,
        "the kernel refuses it"
    );
    let advise = |advice: i32| native(libc::SYS_madvise, [page, 0x1000, advice as u64, 0, 0, 0]);
    assert_eq!(advise(libc::MADV_DONTFORK), TRAP);
    assert_eq!(advise(libc::MADV_DONTNEED), ALLOW);
}

/// The creation of containers must not become slower.
#[test]
fn only_time_namespaces_are_asked_about() {
    let new_time = 0x80;
    let others = (libc::CLONE_NEWNS | libc::CLONE_NEWUSER | libc::CLONE_NEWPID) as u64;
    let unshare = |flags| native(libc::SYS_unshare, [flags, 0, 0, 0, 0, 0]);
    assert_eq!([unshare(0), unshare(others)], [ALLOW; 2]);
    assert_eq!([unshare(new_time), unshare(new_time | others)], [ASK; 2]);
    let setns = |flags| native(libc::SYS_setns, [3, flags, 0, 0, 0, 0]);
    assert_eq!(
        [setns(others), setns(libc::CLONE_NEWNET as u64)],
        [ALLOW; 2]
    );
    assert_eq!([setns(0), setns(new_time)], [ASK; 2]);
    assert_eq!(native(libc::SYS_clone, [new_time, 0, 0, 0, 0, 0]), ALLOW);
}

/// A released program does not need the supervisor, except for an exec.
#[test]
fn a_program_that_was_let_go_needs_no_supervisor() {
    let program = 0x5555_0000_1000;
    for call in calls() {
        let (number, name) = (number_of(call), call.name);
        let mut args = [0; 6];
        match call.when {
            // Arbitrary address.
            CallCondition::Given(index) => args[index as usize] = 8,
            CallCondition::OneOf(index, values) => args[index as usize] = values[0].into(),
            CallCondition::NewTime(flags) | CallCondition::NewTimeOrAny(flags) => {
                args[flags as usize] = 0x80
            }
            CallCondition::DeviceTime => args[1] = IOCTLS[0].command.into(),
            CallCondition::SocketTime => {
                let (level, option) = SOCKET_OPTIONS[0].place;
                args[1..3].copy_from_slice(&[level.into(), option.into()]);
            }
            // The timer belongs to the session. The kernel handles other timers in any case.
            _ if name.starts_with("timer_") => args[0] = FIRST_POSIX as u64,
            _ => {}
        }
        let [before, after] = outcomes_registered(number, program, args);
        let [inside_before, inside_after] = outcomes_registered(number, IMAGE_ADDRESS, args);
        let asks = matches!(call.treatment, Some(Treatment::Ask(_)));
        if matches!(call.treatment, Some(Treatment::Ask(it)) if it.outlasts_session()) {
            assert_eq!([before, after], [ASK; 2], "{name}");
            assert_eq!([inside_before, inside_after], [ASK; 2], "{name}");
        } else if asks {
            assert_eq!([before, after], [ASK, TRAP], "{name}");
            assert_eq!([inside_before, inside_after], [ALLOW; 2], "{name}");
        } else {
            let launched = outcome(AUDIT_ARCH, number, program, args);
            assert_eq!([before, after], [launched; 2], "{name}");
        }
    }
}

#[test]
fn other_ways_into_the_kernel_are_closed() {
    assert_eq!(outcome(0x4000_0003, 1, 0, [0; 6]), REFUSE, "int 0x80");
    assert_eq!(native(0x4000_0000 | libc::SYS_read, [0; 6]), REFUSE, "x32");
    let to_come = i64::from(NEWEST) + 1;
    assert_eq!(native(to_come, [1; 6]), REFUSE, "of a kernel to come");
    assert_eq!(native(libc::SYS_clone3, [1; 6]), REFUSE);
}

fn number_of(call: &Call) -> i64 {
    call.number().expect("a call of this architecture").into()
}

/// The table has its own numbers, for two architectures; `libc` has those of this one.
#[test]
fn the_tables_numbers_are_the_kernels() {
    macro_rules! compare {
        ($($name:ident)*) => {
            $(
                let name = stringify!($name).strip_prefix("SYS_").expect("the prefix");
                let call = calls().find(|call| call.name == name);
                assert_eq!(call.map(number_of), Some(libc::$name), "{name}");
            )*
            let known = [$(libc::$name),*];
            #[cfg(target_arch = "x86_64")]
            let own = [
                ("time", libc::SYS_time),
                ("poll", libc::SYS_poll),
                ("select", libc::SYS_select),
                ("epoll_wait", libc::SYS_epoll_wait),
                ("utime", libc::SYS_utime),
                ("utimes", libc::SYS_utimes),
                ("futimesat", libc::SYS_futimesat),
                ("open", libc::SYS_open),
                ("stat", libc::SYS_stat),
                ("lstat", libc::SYS_lstat),
                ("alarm", libc::SYS_alarm),
                ("arch_prctl", libc::SYS_arch_prctl),
            ];
            #[cfg(not(target_arch = "x86_64"))]
            let own = [("sigaltstack", libc::SYS_sigaltstack)];
            for (name, number) in own {
                assert_eq!(find(number).map(|call| call.name), Some(name));
            }
            // `libc` does not define these on every target.
            let others = ["io_pgetevents", "futex_wait", "cpu_time"];
            let seen = |call: &&Call| {
                known.contains(&number_of(call)) || own.iter().any(|(name, _)| *name == call.name)
            };
            for call in calls().filter(|call| !seen(call)) {
                assert!(others.contains(&call.name), "{}", call.name);
            }
        };
    }
    compare!(
        SYS_fstat SYS_newfstatat SYS_statx SYS_openat SYS_openat2
        SYS_clock_gettime SYS_gettimeofday SYS_nanosleep SYS_clock_nanosleep SYS_ppoll
        SYS_pselect6 SYS_epoll_pwait SYS_epoll_pwait2 SYS_futex SYS_futex_waitv
        SYS_rt_sigtimedwait SYS_semtimedop SYS_semop SYS_mq_timedsend
        SYS_mq_timedreceive SYS_read SYS_readv SYS_recvfrom SYS_recvmsg SYS_recvmmsg
        SYS_accept SYS_accept4 SYS_connect SYS_write SYS_writev SYS_sendto SYS_sendmsg
        SYS_sendmmsg SYS_io_getevents SYS_ioctl SYS_sysinfo SYS_times SYS_getrusage
        SYS_wait4 SYS_waitid SYS_utimensat SYS_setsockopt SYS_rt_sigprocmask
        SYS_mmap SYS_munmap SYS_mprotect SYS_madvise SYS_mremap SYS_pkey_mprotect
        SYS_remap_file_pages
        SYS_rt_sigaction SYS_rt_sigsuspend SYS_rt_sigpending SYS_rt_sigreturn SYS_ptrace
        SYS_prctl SYS_clone3
        SYS_execve SYS_execveat SYS_timerfd_create SYS_timerfd_settime
        SYS_timerfd_gettime SYS_timer_create SYS_timer_settime SYS_timer_gettime
        SYS_timer_getoverrun SYS_timer_delete SYS_setitimer SYS_getitimer
        SYS_clock_settime SYS_settimeofday SYS_adjtimex SYS_clock_adjtime
        SYS_io_uring_setup SYS_shmctl SYS_semctl SYS_msgctl SYS_perf_event_open SYS_bpf
        SYS_keyctl SYS_acct SYS_seccomp SYS_syslog SYS_sched_setattr SYS_setrlimit SYS_prlimit64
        SYS_unshare SYS_setns
    );
}

#[test]
fn the_filter_program_agrees_with_the_table() {
    let listed: Vec<i64> = calls().map(number_of).collect();
    // These are values that random tests would hardly hit.
    let own = crate::phc::COMMANDS.into_iter().chain(PACKET_STAMPS);
    let places = SOCKET_OPTIONS
        .iter()
        .flat_map(|option| [option.place.0, option.place.1]);
    let named = IOCTLS.iter().map(|ioctl| ioctl.command);
    let named = named.chain(TERMINAL_INPUT);
    let constants: Vec<u32> = own.chain(named).chain(places).collect();
    for seed in 0..60_000 {
        let mut random = timeloom_random::Random::new(seed, 0);
        let number = match random.below(8) {
            0 => random.below(600) as i64,
            1 => (random.bits() as u32 & 0x7fff_ffff) as i64,
            _ => listed[random.below(listed.len() as u64) as usize],
        };
        let mut word = || match random.below(9) {
            0 | 1 => 0,
            2 => 1,
            3 => random.bits() << 32,
            4 => u64::from(random.bits() as u32),
            5 => random.below(70),
            6 => [128, 256, 384][random.below(3) as usize] | random.below(14),
            7 => constants[random.below(constants.len() as u64) as usize].into(),
            _ => random.bits(),
        };
        let args = [word(), word(), word(), word(), word(), word()];
        let address = match random.below(5) {
            4 => ASKING_ADDRESSES[random.below(2) as usize],
            0 => IMAGE_ADDRESS + random.below(IMAGE_LIMIT),
            1 => IMAGE_ADDRESS.wrapping_add(random.below(4 * IMAGE_LIMIT)) - 2 * IMAGE_LIMIT,
            2 => (random.bits() << 32) | random.below(IMAGE_LIMIT),
            _ => random.bits(),
        };
        assert_eq!(
            outcome(AUDIT_ARCH, number, address, args),
            by_the_table(Guest::Launched, number, address, args),
            "seed {seed}: call {number} at {address:x} with {args:x?}"
        );
        assert_eq!(
            outcome_emulating(AUDIT_ARCH, number, address, args),
            by_the_table(Guest::EmulatingTsc, number, address, args),
            "seed {seed}: call {number} at {address:x} with {args:x?}, emulating"
        );
        assert_eq!(
            outcome_dating(number, address, args),
            by_the_table(Guest::DatingFiles, number, address, args),
            "seed {seed}: call {number} at {address:x} with {args:x?}, dating files"
        );
        assert_eq!(
            outcomes_registered(number, address, args),
            by_the_table_registered(number, address, args),
            "seed {seed}: call {number} at {address:x} with {args:x?}, registered"
        );
    }
}

/// Checks the kernel's requirements of a filter: jumps are forward and inside the filter, loads are
/// of whole words of the data, every end is a return, and the length is limited.
#[test]
fn the_programs_are_such_that_the_kernel_takes_them() {
    for program in [
        program(Guest::Launched),
        program(Guest::EmulatingTsc),
        program(Guest::DatingFiles),
        program(Guest::EmulatingAndDating),
        program(Guest::Registered),
        program_on(Guest::EmulatingAndDating, true),
        release_program(),
    ] {
        is_taken(&program);
    }
}

/// The filter runs at each trap and at each call of the image. One comparison for each call in the
/// table would take 150 instructions.
#[test]
fn few_instructions_decide_a_call() {
    for guest in [
        Guest::Launched,
        Guest::EmulatingAndDating,
        Guest::Registered,
    ] {
        let program = program(guest);
        let always = calls().filter(|call| call.when == CallCondition::Always);
        for number in always.map(number_of).chain([libc::SYS_getppid]) {
            for address in [0x5555_0000_1000, IMAGE_ADDRESS + 0x100] {
                let (_, executed) = interpret(&program, AUDIT_ARCH, number, address, [1; 6]);
                assert!(executed <= 36, "{}: {executed}", name_of(number));
            }
        }
    }
}

fn is_taken(program: &[sock_filter]) {
    assert!(program.len() <= 4096, "{} steps", program.len());
    for (at, step) in program.iter().enumerate() {
        let lands = |offset: u32| at + 1 + (offset as usize) < program.len();
        let good = match u32::from(step.code) {
            0x20 => step.k % 4 == 0 && step.k < size_of::<libc::seccomp_data>() as u32,
            0x05 => lands(step.k),
            0x15 | 0x35 | 0x45 => lands(step.jt.into()) && lands(step.jf.into()),
            0x06 => true,
            _ => false,
        };
        assert!(good, "step {at}: {:x} {:x}", step.code, step.k);
    }
    assert_eq!(program.last().map(|step| step.code), Some(0x06));
}

#[test]
fn all_of_sigsegv_goes_through_the_image_if_the_counter_is_emulated() {
    let at = |number, args| outcome_emulating(AUDIT_ARCH, number, 0x5555_0000_1000, args);
    for call in calls().filter(|call| call.emulating_tsc.is_some()) {
        let asks = [libc::PR_GET_TSC as u64, 0, 0, 0, 0, 0];
        assert_eq!(at(number_of(call), asks), TRAP, "{}", call.name);
    }
    let other = [libc::PR_SET_NAME as u64, 1, 0, 0, 0, 0];
    assert_eq!(at(libc::SYS_prctl, other), ALLOW);
    assert_eq!(native(libc::SYS_prctl, [25, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(native(libc::SYS_prctl, [22, 2, 1, 0, 0, 0]), TRAP);
}

/// Without virtual dates of files, `stat` and its relatives do not trap.
#[test]
fn only_where_dates_of_files_are_virtual_do_their_calls_trap() {
    for call in calls().filter(|call| call.file_times.is_some() && call.treatment.is_none()) {
        let number = number_of(call);
        let args = [1, 2, 3, 4, 5, 6];
        assert_eq!(native(number, args), ALLOW, "{}", call.name);
        let dating = outcome_dating(number, 0x5555_0000_1000, args);
        assert_eq!(dating, TRAP, "{}", call.name);
        assert_eq!(
            outcome_dating(number, IMAGE_ADDRESS, args),
            ALLOW,
            "{}",
            call.name
        );
    }
}

/// Programs of other hosts pay nothing for a card.
#[test]
fn only_on_hosts_with_a_card_do_opens_and_the_cards_commands_trap() {
    let outside = 0x5555_0000_1000;
    for call in calls().filter(|call| call.with_card.is_some()) {
        let number = number_of(call);
        assert_eq!(native(number, [1; 6]), ALLOW, "{}", call.name);
        assert_eq!(
            outcome_with_card(number, outside, [1; 6]),
            TRAP,
            "{}",
            call.name
        );
        assert_eq!(
            outcome_with_card(number, IMAGE_ADDRESS, [1; 6]),
            ALLOW,
            "{}",
            call.name
        );
    }
    for command in CARD_IOCTLS {
        let args = [3, command.into(), 5, 0, 0, 0];
        assert_eq!(native(libc::SYS_ioctl, args), ALLOW, "{command:x}");
        assert_eq!(
            outcome_with_card(libc::SYS_ioctl, outside, args),
            TRAP,
            "{command:x}"
        );
    }
    let other = [3, libc::FIONREAD, 5, 0, 0, 0];
    assert_eq!(outcome_with_card(libc::SYS_ioctl, outside, other), ALLOW);
}
