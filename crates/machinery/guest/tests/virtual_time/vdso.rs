//! Tests that programs which find the kernel's vDSO by their own methods read virtual time.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::support::command_line::{CommandLine, User};
use crate::support::{
    Line, Lines, Program, World, built, c_program, c_program_static, must_run, pipe, source,
};
use timeloom_test_support::need_root;

/// Returns the path of the program, built without the C library's loader, but for a random address.
fn c_program_static_pie(name: &str) -> PathBuf {
    built(&format!("{name}.static-pie"), |output| {
        must_run(
            Command::new("gcc")
                .args(["-O1", "-g", "-static-pie"])
                .arg(source(&format!("{name}.c")))
                .arg("-o")
                .arg(output),
        );
    })
}

/// Returns the machine's time, encoded so that a program that searches its memory for the time does
/// not find it in its arguments.
fn disguised_seconds() -> String {
    const DISGUISE: u64 = 1_000_000_000_000;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (now.expect("after 1970").as_secs() + DISGUISE).to_string()
}

fn natively(program: &PathBuf) -> Lines {
    let argv = [program.into(), disguised_seconds().into()];
    let (lines, status) = Program::native(&argv).finish();
    assert_eq!(status, 0, "{lines:?}");
    Lines::parse(&lines)
}

/// Creates a session with a year that the machine's clock does not show, and with another rate.
fn world(theme: &str) -> World {
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)), // 2019-06-03
        dilation: 4.0,
        ..Default::default()
    };
    let world = World::with_clock(theme, clock);
    world.pause_for(Duration::from_millis(300));
    world
}

/// Checks that each method that works natively works in the session and leads to the clock of 2019,
/// and that the machine's time is not found.
fn is_virtual(native: &Lines, guest: &Lines) {
    let here = native.0["maps"].number("year");
    assert_eq!(native.0["search"].text("where"), "[vvar]", "{native:?}");
    for (case, expected) in &native.0 {
        let line = &guest.0[case];
        match case.as_str() {
            "search" => assert_eq!(line.number("found"), 0, "{line:?}"),
            "again" => assert_eq!(line, expected),
            _ => {
                let is_there = expected.number("year") != 0;
                assert!(!is_there || expected.number("year") == here, "{expected:?}");
                let year = if is_there { 2019 } else { 0 };
                let told = (line.number("year"), line.number("wrong"));
                assert_eq!(told, (year, 0), "{line:?}");
            }
        }
    }
}

#[test]
fn a_loader_of_its_own_finds_virtual_time_and_no_other() {
    let programs = [
        c_program("vdso"),
        c_program_static("vdso"),
        c_program_static_pie("vdso"),
    ];
    for program in programs {
        let native = natively(&program);
        let world = world("vdso");
        let (lines, status) = world
            .start([program.as_os_str(), disguised_seconds().as_ref()])
            .finish();
        assert_eq!(status, 0, "{lines:?}");
        is_virtual(&native, &Lines::parse(&lines));
        let warnings = world.warnings.lock().expect("no panic while held");
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

/// Without privilege, the kernel's copy of the auxiliary vector stays unchanged, and the vDSO that
/// it names leads to the image.
#[test]
fn a_loader_of_its_own_finds_virtual_time_without_root() {
    need_root();
    let native = natively(&c_program("vdso"));
    let line = CommandLine::new("vdso-nobody", User::Nobody);
    let program = line.scratch.copy(&c_program("vdso"));
    let seconds = disguised_seconds();
    let mut running = line.exec([
        "--quiet".as_ref(),
        "--start".as_ref(),
        "2019-06-03T12:00:00Z".as_ref(),
        "--dilate".as_ref(),
        "4".as_ref(),
        "--".as_ref(),
        program.as_os_str(),
        seconds.as_ref(),
    ]);
    let status = running.wait();
    let printed: Vec<String> = line.output().lines().map(str::to_owned).collect();
    assert_eq!(status, 0, "{printed:#?}");
    is_virtual(&native, &Lines::parse(&printed));
}

/// An attached program finds virtual time too, and after its release the machine's time.
#[test]
fn a_program_that_is_brought_in_finds_virtual_time_until_it_is_let_go() {
    let world = world("vdso-register");
    let (read, write) = pipe();
    let argv = [c_program("vdso").into()];
    let mut program = Program::native_reading(&argv, read.into());
    let mut orders = File::from(write);
    let mut ask = |program: &mut Program| {
        writeln!(orders, "{}", disguised_seconds()).expect("it reads");
        let mut lines = Vec::new();
        while !lines
            .last()
            .is_some_and(|line: &String| line.starts_with("search"))
        {
            lines.push(program.next_line());
        }
        Lines::parse(&lines)
    };
    let native = ask(&mut program);
    let pid = program.native_pid();
    world.session.register(pid).expect("a program of ours");
    is_virtual(&native, &ask(&mut program));
    world.session.unregister(pid).expect("it is ours to let go");
    assert_eq!(ask(&mut program), native);
    drop(orders);
    assert_eq!(program.finish().1, 0);
}

/// `rustix` gets the address of the vDSO from the kernel, not from the C library.
#[test]
fn rustix_reads_virtual_time() {
    const MARK: &str = "TIMELOOM_TEST_READS_BY_RUSTIX";
    if std::env::var_os(MARK).is_some() {
        return read_by_rustix();
    }
    let world = world("vdso-rustix");
    let own = std::env::current_exe().expect("our own path");
    let (lines, status) = world
        .start([
            "env".as_ref(),
            format!("{MARK}=1").as_ref(),
            own.as_os_str(),
            "--exact".as_ref(),
            "vdso::rustix_reads_virtual_time".as_ref(),
            "--nocapture".as_ref(),
        ])
        .finish();
    assert_eq!(status, 0, "{lines:#?}");
    let reads: Vec<Line> = lines.iter().filter_map(|line| Line::parse(line)).collect();
    let read = reads.iter().find(|line| line.case == "rustix");
    let read = read.unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(read.number("wrong"), 0, "{read:?}");
    let of_2019 = 1_546_300_800..1_577_836_800;
    assert!(of_2019.contains(&read.number("realtime")), "{read:?}");
}

/// Compares the readings of rustix with those of the C library.
fn read_by_rustix() {
    use rustix::time::{ClockId, clock_gettime};
    let library_ns = |clock| {
        // SAFETY: plain data, written by the callee.
        unsafe {
            let mut now: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(clock, &raw mut now);
            now.tv_sec * 1_000_000_000 + now.tv_nsec
        }
    };
    let mut wrong = 0;
    for _ in 0..1_000 {
        for (id, same) in [
            (ClockId::Monotonic, libc::CLOCK_MONOTONIC),
            (ClockId::Realtime, libc::CLOCK_REALTIME),
        ] {
            let before = library_ns(same);
            let read = clock_gettime(id);
            let read_ns = read.tv_sec * 1_000_000_000 + read.tv_nsec;
            wrong += u32::from(!(before..=library_ns(same)).contains(&read_ns));
        }
    }
    let realtime = clock_gettime(ClockId::Realtime).tv_sec;
    println!("\nrustix realtime={realtime} wrong={wrong}");
}
