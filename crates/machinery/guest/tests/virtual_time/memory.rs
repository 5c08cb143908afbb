//! Tests that operations of a program on its own memory do not remove the clock page or the image.

use std::time::Duration;

use timeloom_test_support::need;

use crate::support::{Differential, Lines, World, c_program, c_program_static};

#[test]
fn programs_that_unmap_move_or_protect_all_are_as_natively() {
    for dilation in [1.0, 2.0] {
        let world = World::new("memory", dilation);
        let programs = [c_program("memory"), c_program_static("memory")];
        Differential::of(programs, 400).run(&world, |world| {
            world.run_for(Duration::from_millis(100));
            world.pause_for(world.long());
        });
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_that_do_so_are_as_natively_where_the_counter_is_emulated() {
    crate::tsc::as_natively("memory-tsc", &Differential::of([c_program("memory")], 400));
}

fn world_of_2019(theme: &str) -> World {
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_563_200_000_000_000)), // 2019-06-03
        dilation: 2.0,
        ..Default::default()
    };
    World::with_clock(theme, clock)
}

#[test]
fn page_and_image_stay_and_a_moved_vdso_leads_to_the_image() {
    const ENOMEM: i64 = libc::ENOMEM as i64;
    let world = world_of_2019("memory-own");
    let argv = [c_program("memory").into_os_string(), "own".into()];
    let (lines, status) = world.start(argv).finish();
    assert_eq!(status, 0, "{lines:#?}");
    let lines = Lines::parse(&lines);
    for (case, result, errno) in [
        ("munmap", 0, 0),
        ("munmap_nothing", -1, libc::EINVAL.into()),
        ("mprotect", 0, 0),
        ("mprotect_invalid", -1, libc::EINVAL.into()),
        ("mmap", -1, ENOMEM),
        ("mmap_far", -1, ENOMEM),
        ("mmap_beyond", 0, 0),
        ("mremap_from", -1, libc::EFAULT.into()),
        ("mremap_to", -1, ENOMEM),
        ("pkey_mprotect", 0, 0),
        ("remap_file_pages", -1, libc::EINVAL.into()),
        ("madvise", 0, 0),
        ("move", 0, 0),
        ("sleep", 0, 0),
    ] {
        let line = &lines.0[case];
        let found = (line.number("result"), line.number("errno"));
        assert_eq!(found, (result, errno), "{line:?}");
    }
    if cfg!(target_arch = "x86_64") {
        let line = &lines.0["map_vdso"];
        let found = (line.number("result"), line.number("errno"));
        assert_eq!(found, (-1, libc::EEXIST.into()), "{line:?}");
    }
    let of_2019 = 1_546_300_800..1_577_836_800;
    assert!(
        of_2019.contains(&lines.0["read"].number("result")),
        "{lines:?}"
    );
}

/// Under every memory layout of the kernel, the addresses of the page and the image are free.
#[test]
fn every_layout_of_addresses_has_room_for_page_and_image() {
    let world = world_of_2019("layouts");
    for begin in [
        "exec setarch -R",
        "exec setarch -L",
        "ulimit -s unlimited; exec",
        "ulimit -s 4000000; exec",
        "ulimit -s 1024; exec setarch -R",
    ] {
        let program = c_program("year");
        let script = format!("{begin} {}", program.display());
        let (lines, status) = world.start(["sh", "-c", &script]).finish();
        let expected = vec!["year=2019 early=0".to_owned()];
        assert_eq!((lines, status), (expected, 0), "{script}");
    }
}

/// valgrind unmaps its vDSO, and runs programs without one.
#[test]
fn valgrind_checks_a_program_of_2019() {
    need("valgrind", "valgrind");
    let world = world_of_2019("valgrind");
    let program = c_program("year");
    for tool in ["memcheck", "helgrind"] {
        let (lines, status) = world
            .start([
                "valgrind".as_ref(),
                "-q".as_ref(),
                "--error-exitcode=9".as_ref(),
                format!("--tool={tool}").as_ref(),
                program.as_os_str(),
            ])
            .finish();
        assert_eq!(
            (lines, status),
            (vec!["year=2019 early=0".to_owned()], 0),
            "{tool}"
        );
    }
}
