//! Other tools must read captures correctly.

use std::fs::File;
use std::process::Command;

use pcap_file::pcapng::{Block, PcapNgReader};
use timeloom_results::{RunDirectory, parse_rfc3339};
use timeloom_time::Instant;

/// An ARP request: who has 10.0.0.2? tell 10.0.0.1.
const ARP: [u8; 42] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0,
    0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
];

fn write(directory: &RunDirectory) -> std::path::PathBuf {
    let start = parse_rfc3339("2019-06-03T00:00:00Z").unwrap();
    let mut capture = directory.capture("s1-s2", start).unwrap();
    capture
        .packet(
            Instant::from_ns(22_500_000_001),
            Instant::from_ns(71_000_000_002),
            &ARP,
            None,
        )
        .unwrap();
    capture
        .packet(
            Instant::from_ns(22_500_123_456),
            Instant::from_ns(72_000_000_000),
            &ARP,
            Some("dropped by dos1"),
        )
        .unwrap();
    crate::place(directory).join("net/s1-s2.pcapng")
}

#[test]
fn the_crate_reads_it_back() {
    let temporary = tempfile::tempdir().unwrap();
    let path = write(&RunDirectory::create(temporary.path()).unwrap());
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut packets = 0;
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            packets += 1;
            assert_eq!(packet.data, &ARP[..]);
            assert_eq!(packet.timestamp.as_secs(), 1_559_520_022);
        }
    }
    assert_eq!(packets, 2);
}

#[test]
fn tshark_reads_virtual_time_to_the_nanosecond() {
    let temporary = tempfile::tempdir().unwrap();
    let path = write(&RunDirectory::create(temporary.path()).unwrap());
    let fields = [
        "frame.time_epoch",
        "frame.comment",
        "arp.dst.proto_ipv4",
        "frame.interface_name",
    ];
    let mut tshark = Command::new(timeloom_test_support::need("tshark", "tshark"));
    tshark
        .arg("-r")
        .arg(&path)
        .args(["-n", "-T", "fields", "-E", "separator=|"]);
    fields
        .iter()
        .for_each(|field| _ = tshark.args(["-e", field]));
    let output = tshark.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "1559520022.500000001|wall 71.000000002 s|10.0.0.2|s1-s2",
            "1559520022.500123456|wall 72.000000000 s; dropped by dos1|10.0.0.2|s1-s2",
        ],
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
