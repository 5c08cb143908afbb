//! Test with real chronyds: two in namespaces of one machine share the true clock. Neither steers
//! it (`-x`).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::net::{ADDRESSES, Cable, Running, find};
use crate::common::{config, realtime_ns, wait_for_status};
use timeloom_clock::quality::Status;
use timeloom_timeline::shm::PageReader;
use timeloom_timelined::serve;

fn start_chronyd(cable: &Cable, end: usize, directory: &Path) -> Running {
    let at = |name: &str| directory.join(format!("{name}{end}")).display().to_string();
    let role = if end == 0 {
        "local stratum 3\nallow 10.77.0.0/24".to_owned()
    } else {
        format!("server {} minpoll -2 maxpoll -2 xleave", ADDRESSES[0])
    };
    let settings = format!(
        "{role}\npidfile {}\nbindcmdaddress {}\nuser root\ncmdport 0\n",
        at("pid"),
        at("command")
    );
    std::fs::write(at("conf"), settings).unwrap();
    let arguments = ["-x", "-d", "-f", &at("conf")];
    cable.start(
        end,
        &find("chronyd").expect("`make test` unpacks chronyd"),
        &arguments,
        at("log").as_ref(),
    )
}

fn prove(length: Duration) {
    let cable = Cable::lay();
    let directory = tempfile::tempdir().unwrap();
    // chronyd checks the permissions of its socket's directory.
    let of_command = directory.path().join("chrony");
    std::fs::create_dir(&of_command).unwrap();
    std::fs::set_permissions(&of_command, std::fs::Permissions::from_mode(0o750)).unwrap();
    let timelines = format!(
        r#"
        [[timeline]]
        name = "ntp"
        tai_offset_s = 37
        poll = {{ shortest = "100 ms", longest = "100 ms" }}
        [[timeline.source]]
        type = "chrony"
        address = "{}/command1"
        "#,
        of_command.display()
    );
    let daemon = serve(&config(directory.path(), &timelines)).unwrap();
    let _server = start_chronyd(&cable, 0, &of_command);
    let mut client = start_chronyd(&cable, 1, &of_command);
    let timeline = daemon.timelines().next().unwrap();
    let reader = PageReader::open(timeline.page()).unwrap();
    let log = || std::fs::read_to_string(of_command.join("log1")).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(120);
    while reader.read().unwrap().status() != Status::Ok {
        let why = || (timeline.report().unwrap().sources, log());
        assert!(client.alive() && Instant::now() < deadline, "{:?}", why());
        std::thread::sleep(Duration::from_millis(20));
    }
    wait_for_status(&reader, Status::Ok);
    let end = Instant::now() + length;
    // chronyd's error estimate shrinks with time, so the last width says more than the mean.
    let (mut samples, mut widths, mut last, mut errors) = (0, 0i64, 0, 0f64);
    while Instant::now() < end {
        let before_ns = realtime_ns() + 37_000_000_000;
        let stamp = reader.read().unwrap();
        let after_ns = realtime_ns() + 37_000_000_000;
        if let Some(interval) = stamp.interval() {
            assert!(
                interval.earliest().as_ns() <= after_ns && before_ns <= interval.latest().as_ns(),
                "sample {samples}: the truth {before_ns}…{after_ns} is not in {interval:?}",
            );
            samples += 1;
            last = interval.width().as_ns();
            widths += last;
            errors += (interval.estimate().as_ns() - before_ns) as f64;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(samples > 100, "{samples}: {:?}", timeline.report());
    eprintln!(
        "{samples} samples, width {} ns on average and {last} ns at last, mean error {:.0} ns",
        widths / samples,
        errors / samples as f64
    );
    assert_eq!(timeline.report().unwrap().disturbances, 0);
}

#[test]
fn the_bound_holds_over_real_chronyd() {
    prove(Duration::from_secs(3));
}

#[test]
#[ignore = "ten minutes: `make proof-timeline`"]
fn the_bound_holds_for_ten_minutes_over_real_chronyd() {
    prove(Duration::from_secs(600));
}
