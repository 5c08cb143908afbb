//! Tests of popular programs as packaged by Debian, and of programs built with other tools than
//! those of the other tests: musl's C library, Rust.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use timeloom_test_support::need;

use crate::support::{Differential, Scratch, World, built, must_run, source};

/// Returns the path of `tests/programs/NAME.c` built with musl, linked dynamically or statically.
fn musl(name: &str, linking: &str) -> PathBuf {
    built(&format!("{name}.musl{linking}"), |output| {
        must_run(
            std::process::Command::new("musl-gcc")
                .args(["-O1", "-g", "-pthread"])
                .args((!linking.is_empty()).then_some(linking))
                // The kernel's headers come after musl's own.
                .args(["-idirafter", "/usr/include"])
                .args(["-idirafter", "/usr/include/x86_64-linux-gnu"])
                .arg(source(&format!("{name}.c")))
                .arg("-o")
                .arg(output),
        );
    })
}

fn musl_programs(names: &[&str]) -> Vec<PathBuf> {
    need("musl-gcc", "musl-tools");
    let both = |name: &&str| [musl(name, ""), musl(name, "-static")];
    names.iter().flat_map(both).collect()
}

/// (`signals` is not among the programs: its expectation of `sem_timedwait` is glibc's behaviour.)
#[test]
fn programs_of_musl_are_as_natively() {
    let groups: [&[&str]; 3] = [
        &[
            "waits", "queues", "masks", "sockets", "stamps", "files", "epolls",
        ],
        &["processes"],
        // This program runs separately, since it keeps the processor busy.
        &["cpu_time"],
    ];
    for names in groups {
        let programs = musl_programs(names);
        let world = World::new("musl", 1.0);
        Differential::of(programs, 500).run(&world, |world| {
            world.run_for(Duration::from_millis(250));
            world.pause_for(world.long());
        });
    }
}

#[test]
fn programs_of_musl_at_a_tenth_and_at_ten_times_the_speed() {
    for dilation in [10.0, 0.1] {
        let programs = musl_programs(&["waits", "sockets"]);
        let world = World::new("musl-rate", dilation);
        Differential::of(programs, 300).run(&world, |world| {
            world.run_for(Duration::from_millis(100));
            world.pause_for(Duration::from_millis(300));
        });
    }
}

#[test]
fn a_rust_program_is_as_natively() {
    let program = built("waits.rust", |output| {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        must_run(
            std::process::Command::new(rustc)
                .args(["--edition=2024", "-O", "-o"])
                .arg(output)
                .arg(source("waits.rs")),
        );
    });
    for dilation in [1.0, 5.0] {
        let world = World::new("rust", dilation);
        Differential::of([program.clone()], 500).run(&world, |world| {
            world.run_for(Duration::from_millis(250));
            world.pause_for(world.long());
        });
    }
}

/// Creates a session that begins on 3 June 2019, at noon.
fn world_of_2019(theme: &str) -> World {
    World::with_clock(
        theme,
        timeloom_guest::ClockOptions {
            start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)),
            ..Default::default()
        },
    )
}

/// Runs a shell script, which must succeed. Returns its output.
fn run(world: &World, script: &str) -> Vec<String> {
    let (lines, status) = world.start(["sh", "-c", script]).finish();
    assert_eq!(status, 0, "{script}\n{lines:#?}");
    lines
}

/// Keys expire by the virtual clock, and never during a pause, however long.
#[test]
fn keys_of_redis_expire_in_virtual_time() {
    need("redis-server", "redis-server");
    let world = world_of_2019("redis");
    let scratch = Scratch::new("redis");
    let socket = scratch.path("socket");
    let _server = world.start([
        "redis-server".as_ref(),
        "--port".as_ref(),
        "0".as_ref(),
        "--save".as_ref(),
        "".as_ref(),
        "--unixsocket".as_ref(),
        socket.as_os_str(),
    ]);
    let begun = Instant::now();
    while !socket.exists() {
        assert!(
            begun.elapsed() < crate::support::PATIENCE,
            "redis does not start"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let ask = |request: &str| {
        run(
            &world,
            &format!("redis-cli -s {} {request}", socket.display()),
        )
    };
    let day = ask("TIME | head -1 | xargs -I{} date -u -d @{} +%F");
    assert_eq!(day, ["2019-06-03"]);
    assert_eq!(ask("SET key value PX 20000"), ["OK"]);
    world.session.pause().expect("pausing");
    std::thread::sleep(Duration::from_millis(700));
    world.session.resume().expect("resuming");
    let left_ms: i64 = ask("PTTL key")[0].parse().expect("a number");
    assert!((1..=20_000).contains(&left_ms), "{left_ms} ms left");
    // Twenty virtual seconds pass in a fraction of a real second.
    world.session.dilate(0.01).expect("a possible factor");
    world.run_for(Duration::from_millis(20_100));
    world.session.dilate(1.0).expect("a possible factor");
    assert_eq!(ask("GET key"), [""], "it has expired");
    assert_eq!(ask("PTTL key"), ["-2"]);
    world.session.kill_all();
}

#[test]
fn nginx_answers_curl_with_the_virtual_date() {
    need("nginx", "nginx-light");
    need("curl", "curl");
    let world = world_of_2019("nginx");
    let scratch = Scratch::new("nginx");
    let directory = scratch.path("");
    let directory = directory.display();
    let configuration = format!(
        "daemon off; master_process on; worker_processes 2; pid {directory}/pid; user root;\n\
         error_log {directory}/error.log; events {{ worker_connections 64; }}\n\
         http {{ access_log {directory}/access.log; server {{ listen unix:{directory}/socket; \
         location / {{ return 200 'hello'; }} }} }}\n"
    );
    std::fs::write(scratch.path("nginx.conf"), configuration).expect("our own directory");
    let _server = world.start(["nginx", "-c", &format!("{directory}/nginx.conf")]);
    let begun = Instant::now();
    while !scratch.path("socket").exists() {
        assert!(
            begun.elapsed() < crate::support::PATIENCE,
            "nginx does not start"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..3 {
        world.pause_for(Duration::from_millis(50));
        let answer = run(
            &world,
            &format!("curl -si --unix-socket {directory}/socket http://localhost/ | tr -d '\\r'"),
        );
        let date = answer.iter().find(|line| line.starts_with("Date: "));
        let date = date.unwrap_or_else(|| panic!("no date in {answer:?}"));
        assert!(date.starts_with("Date: Mon, 03 Jun 2019 12:0"), "{date}");
        assert_eq!(answer.last().map(String::as_str), Some("hello"));
    }
    let log = std::fs::read_to_string(scratch.path("access.log")).expect("nginx's log");
    assert!(log.contains("03/Jun/2019"), "{log}");
    world.session.kill_all();
}

/// curl's own limit on a transfer counts virtual time, also after a pause.
#[test]
fn curl_gives_up_after_its_virtual_limit() {
    need("curl", "curl");
    let world = World::new("curl", 1.0);
    let scratch = Scratch::new("curl");
    let _silent = UnixListener::bind(scratch.path("socket")).expect("our own directory");
    let before = world.session.clock().now();
    let curl = world.start([
        "curl",
        "-s",
        "--max-time",
        "1",
        "--unix-socket",
        &scratch.path("socket").display().to_string(),
        "http://localhost/",
    ]);
    world.run_for(Duration::from_millis(400));
    world.pause_for(Duration::from_millis(1_500));
    let (_, status) = curl.finish();
    let lasted = (world.session.clock().now() - before).as_ns();
    assert_eq!(status, 28, "curl's code for a timeout");
    assert!(lasted >= 1_000_000_000, "ended after {lasted} ns");
}

#[test]
fn sqlite_knows_the_virtual_date() {
    need("sqlite3", "sqlite3");
    let world = world_of_2019("sqlite");
    let lines = run(
        &world,
        "sqlite3 :memory: \"select date('now'), strftime('%H','now')\"",
    );
    assert_eq!(lines, ["2019-06-03|12"]);
}
