//! The published case, shortened: OpenDSS, a controller, a sensor, and `arpspoof` between the last
//! two.

use std::fs::File;
use std::time::Duration;

use pcap_file::pcapng::{Block, PcapNgReader};
use timeloom_results::{DeviceWrite, RunDirectory};

use crate::support::{Lab, log_lines, place, prepared_python, repository};

/// Fields of an Ethernet frame that the test needs.
pub(crate) struct Frame {
    /// Virtual time of the frame, in seconds.
    pub(crate) at_s: f64,
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
    pub(crate) what: What,
}

#[derive(PartialEq)]
pub(crate) enum What {
    /// An ARP reply that claims this address.
    ArpReply {
        sender: [u8; 4],
    },
    /// TCP segment with this number of data bytes.
    Tcp {
        source: [u8; 4],
        target: [u8; 4],
        data: usize,
    },
    Other,
}

const CONTROLLER: [u8; 4] = [10, 0, 0, 1];
const SENSOR: [u8; 4] = [10, 0, 0, 2];
const ATTACK_S: f64 = 4.0;
/// By this virtual time, `arpspoof` has started and sent its second round, and packets that were in
/// flight have arrived.
const EFFECTIVE_S: f64 = ATTACK_S + 3.0;
const END_S: f64 = 10.0;

/// Changes that make a run of 10 s of virtual time, with the attack at 4 s. Its checks are about a
/// gust at 19 s, and are replaced by checks about this shorter time. The run is slowed down, so
/// that programs are ready before the attack even if their start takes seconds.
const SETS: [&str; 7] = [
    "time.dilation=3",
    "time.duration=10 s",
    "attack.dos.at=4 s",
    "check.storage-charges.assert=max(grid.storage.1.p) > 0",
    "check.sag.assert=min(grid.bus.680.v1) > 2000 from 1 s",
    "check.no-sag.assert=min(grid.bus.680.v1) > 2000 from 1 s",
    "capture.0.link=[\"s2\", \"s3\"]",
];

/// Checks the forged addresses, with sender and start, and the writes to devices. The report must
/// show both on one axis.
fn attack_is_told(directory: &RunDirectory) {
    let events = directory.events().expect("the events can be read");
    let of_kind = |kind: &str| {
        events
            .iter()
            .filter(|it| &*it.kind == kind)
            .collect::<Vec<_>>()
    };
    let spoofed = of_kind("spoofed");
    assert!(!spoofed.is_empty(), "arpspoof was at work");
    for event in &spoofed {
        assert_eq!((&*event.host, &*event.source), ("attacker", "s2-s3"));
        assert!(
            event.t_virtual.as_ns() as f64 >= ATTACK_S * 1e9,
            "{event:?}"
        );
    }
    assert!(
        spoofed
            .iter()
            .any(|it| it.text.contains("10.0.0.1, which is controller's"))
    );
    let writes = of_kind(DeviceWrite::KIND);
    assert!(!writes.is_empty(), "the controller sets the storage");
    let mut last = None;
    for event in writes {
        let write: DeviceWrite = event.text.parse().expect("it can be read back");
        assert_eq!((&*event.host, &*event.source), ("controller", "storage"));
        assert_eq!(write.from, "10.0.0.1", "{write:?}");
        if write.signal == "grid.storage.1.kw" {
            assert!(last.is_none_or(|last| Some(last) == write.old), "{write:?}");
            last = Some(write.new);
        }
    }
    assert!(last.is_some(), "the first storage is set");
    let report = std::fs::read_to_string(place(directory).join("report.html"));
    let report = report.expect("there is a report");
    for told in [
        "The attack over time",
        "spoofed by attacker",
        "controller writes storage",
    ] {
        assert!(report.contains(told), "no {told:?} in the report");
    }
    let manifest = directory.manifest().expect("there is a manifest");
    let inputs: Vec<&str> = manifest.inputs.iter().map(|it| it.path.as_str()).collect();
    for name in ["controller.py", "sensor.py", "modified.dss", "wind.csv"] {
        let found = inputs.iter().any(|path| path.ends_with(name));
        assert!(found, "{name} is not among {inputs:?}");
    }
}

#[test]
fn the_attack_cuts_the_sensor_off() {
    prepared_python();
    timeloom_test_support::need("arpspoof", "dsniff");
    let lab = Lab::with_text("");
    let scenario = repository().join("examples/ieee13/ieee13.toml");
    let run = lab.start_file(&scenario, &SETS).wait().succeeded();
    lab.assert_nothing_left();
    let directory = run.directory();

    let frames = frames(&place(&directory).join("net/s2-s3.pcapng"));
    assert_cut_off(&frames);

    // Signals must be recorded every 100 ms from start to end, without gaps.
    let series = directory
        .series(&["grid.bus.680.v1"])
        .expect("it can be read");
    let times: Vec<i64> = series[0].samples.iter().map(|(t, _)| t.as_ns()).collect();
    let expected: Vec<i64> = (0..=100).map(|step| step * 100_000_000).collect();
    assert_eq!(times, expected);
    assert_eq!(&*series[0].unit, "V");

    attack_is_told(&directory);
    let labels = directory.labels().expect("the labels can be read");
    let of_attack: Vec<&str> = labels.iter().map(|label| &*label.technique).collect();
    assert!(
        of_attack.join(" ").contains("T0830") && of_attack.join(" ").contains("T0814"),
        "{of_attack:?}"
    );
    for label in &labels {
        let target = "controller sensor";
        assert_eq!((&*label.attack, &*label.target), ("dos", target));
        assert_eq!(
            (label.start.as_ns(), label.end.as_ns()),
            (4_000_000_000, 10_000_000_000)
        );
    }

    let checks = directory.checks().expect("the checks can be read");
    let applied: Vec<(&str, bool, bool)> = checks
        .iter()
        .map(|check| (check.name.as_str(), check.applies, check.passed))
        .collect();
    assert_eq!(
        applied,
        [
            ("storage-charges", true, true),
            ("sag", true, true),
            ("no-sag", false, true)
        ]
    );

    // The controller must notice the attack, by its own clock, after its timeout of a second.
    let log = log_lines(&place(&directory), "controller");
    let noticed = log
        .iter()
        .find(|(_, line)| line.contains("no fresh measurement"));
    let (stamp_us, line) = noticed.expect("the controller notices nothing");
    assert!((ATTACK_S * 1e6..END_S * 1e6).contains(&(*stamp_us as f64)));
    // The controller's clock began at 00:00:00 of the scenario's day.
    let own = line
        .split('.')
        .next()
        .and_then(|time| time.strip_prefix("00:00:"));
    let own_s: f64 = own
        .and_then(|second| second.parse().ok())
        .expect("HH:MM:SS");
    let difference_s = *stamp_us as f64 * 1e-6 - own_s;
    assert!(
        (0.0..1.5).contains(&difference_s),
        "{line} at {stamp_us} us"
    );
    assert!(place(&directory).join("report.html").exists());
}

fn assert_cut_off(frames: &[Frame]) {
    assert!(
        frames
            .windows(2)
            .all(|pair| pair[0].at_s <= pair[1].at_s + 0.01),
        "the capture is out of order"
    );
    let last = frames.last().expect("frames were recorded").at_s;
    assert!(
        (END_S - 3.0..END_S + 0.001).contains(&last),
        "the capture ends at {last} s"
    );

    // Data from one host to another that reach the receiver's own interface.
    let data = |source: [u8; 4], target: [u8; 4]| {
        frames.iter().filter(move |frame| match frame.what {
            What::Tcp {
                source: s,
                target: t,
                data,
            } => (s, t) == (source, target) && data > 0,
            _ => false,
        })
    };
    let first = data(SENSOR, CONTROLLER).next().expect("the sensor reports");
    let (sensor, controller) = (first.from, first.to);
    let delivered = |from_s: f64, until_s: f64| {
        let within = move |frame: &&Frame| (from_s..until_s).contains(&frame.at_s);
        let up = data(SENSOR, CONTROLLER)
            .filter(within)
            .filter(|frame| frame.to == controller);
        let down = data(CONTROLLER, SENSOR)
            .filter(within)
            .filter(|frame| frame.to == sensor);
        (up.count(), down.count())
    };
    let (up, down) = delivered(0.0, ATTACK_S);
    assert!(
        up >= 5 && down >= 5,
        "{up} reports and {down} answers before the attack"
    );
    assert_eq!(
        delivered(EFFECTIVE_S, END_S),
        (0, 0),
        "data flows during the attack"
    );

    // The attacker claims the controller's address from the beginning of the attack on, and not
    // before.
    let lies: Vec<&Frame> = frames
        .iter()
        .filter(|frame| match frame.what {
            What::ArpReply { sender } => {
                (sender == CONTROLLER && frame.from != controller)
                    || (sender == SENSOR && frame.from != sensor)
            }
            _ => false,
        })
        .collect();
    let first = lies.first().expect("the attacker answers for others");
    assert!(
        (ATTACK_S..EFFECTIVE_S).contains(&first.at_s),
        "the first lie at {} s",
        first.at_s
    );
    // The attacker sends one reply every two seconds.
    assert!(lies.len() >= 2, "{} false ARP replies", lies.len());
    let attacker = first.from;
    assert!(lies.iter().all(|frame| frame.from == attacker));
    // The sensor's data must go to the attacker.
    let taken =
        data(SENSOR, CONTROLLER).filter(|frame| frame.to == attacker && frame.at_s > ATTACK_S);
    assert!(taken.count() >= 1, "nothing reaches the attacker");
}

pub(crate) fn frames(path: &std::path::Path) -> Vec<Frame> {
    let file = File::open(path).expect("the capture is there");
    let mut reader = PcapNgReader::new(file).expect("it is a pcapng file");
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a whole block") {
            // Civil time at which virtual time begins: 2019-06-03T00:00:00Z.
            let at_s = (packet.timestamp - Duration::from_secs(1_559_520_000)).as_secs_f64();
            frames.push(frame(at_s, &packet.data));
        }
    }
    frames
}

fn frame(at_s: f64, bytes: &[u8]) -> Frame {
    let mac = |at: usize| bytes[at..at + 6].try_into().expect("six bytes");
    let ip = |at: usize| bytes[at..at + 4].try_into().expect("four bytes");
    let what = match (&bytes[12..14], bytes.get(21), bytes.get(23)) {
        ([0x08, 0x06], Some(2), _) => What::ArpReply { sender: ip(28) },
        ([0x08, 0x00], _, Some(6)) => {
            let header = 4 * usize::from(bytes[14] & 0x0f);
            let length = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
            let tcp = 14 + header;
            let data = length - header - 4 * usize::from(bytes[tcp + 12] >> 4);
            What::Tcp {
                source: ip(26),
                target: ip(30),
                data,
            }
        }
        _ => What::Other,
    };
    Frame {
        at_s,
        to: mac(0),
        from: mac(6),
        what,
    }
}
