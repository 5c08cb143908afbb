//! Tests with timestamps from the kernel's driver of an emulated Intel 82576, and with impossible
//! ones.

use timeloom_random::SplitMix64;

use super::*;

/// Session that has run at a fifth of the speed since wall second 1000. Its host's clock is 7 ms
/// ahead of it. The machine's CLOCK_REALTIME is wall time plus a constant.
struct Fifth;

const ERA_NS: i64 = 1_795_346_000_000_000_000;
const HOST_AHEAD_NS: i64 = 7_000_000;
const RAW_AHEAD_NS: i64 = 55;

fn fifth(wall_ns: i64) -> i64 {
    wall_ns.saturating_sub(1_000 * NS_PER_S) / 5
}

impl Scales for Fifth {
    fn wall_ns(&self, clock: i32, shown_ns: i64) -> Option<i64> {
        match clock {
            libc::CLOCK_REALTIME => Some(shown_ns.saturating_sub(ERA_NS)),
            libc::CLOCK_MONOTONIC => Some(shown_ns),
            libc::CLOCK_MONOTONIC_RAW => Some(shown_ns.saturating_sub(RAW_AHEAD_NS)),
            _ => None,
        }
    }

    fn host_ns(&self, clock: i32, wall_ns: i64) -> i64 {
        let zero_ns = match clock {
            libc::CLOCK_REALTIME => ERA_NS,
            libc::CLOCK_MONOTONIC => 0,
            _ => RAW_AHEAD_NS,
        };
        zero_ns + fifth(wall_ns) + HOST_AHEAD_NS
    }

    fn device_ns(&self, device_ns: i64, wall_ns: i64) -> i64 {
        let ahead_ns = device_ns.saturating_sub(wall_ns.saturating_add(ERA_NS));
        (ERA_NS + fifth(wall_ns)).saturating_add(ahead_ns)
    }
}

/// Returns a result with these first two words and timestamps.
fn answer(command: u32, head: [i32; 2], stamps: &[i64]) -> Vec<u8> {
    let layout = Layout::of(command).expect("a command");
    let mut bytes = vec![0; layout.bytes()];
    let at = match layout {
        Layout::Precise => 0,
        _ => HEAD,
    };
    if at == HEAD {
        bytes[..4].copy_from_slice(&head[0].to_ne_bytes());
        bytes[4..8].copy_from_slice(&head[1].to_ne_bytes());
    }
    for (index, &ns) in stamps.iter().enumerate() {
        Stamps(&mut bytes).set(at + index, ns);
    }
    bytes
}

fn stamps_of(bytes: &mut [u8], at: usize, count: usize) -> Vec<i64> {
    let stamps = Stamps(bytes);
    (at..at + count).map(|index| stamps.get(index)).collect()
}

/// Wall instant of the readings, 842.309 s after the start of the session. The 6,400 ns in the
/// tests are the driver's time for a reading under emulation.
const FROM_NS: i64 = 1_842 * NS_PER_S + 309_941_495;
const TO_NS: i64 = FROM_NS + 6_400;
/// The device's lead over CLOCK_REALTIME: it shows TAI.
const DEVICE_AHEAD_NS: i64 = 37 * NS_PER_S + 260;

#[test]
fn system_and_device_in_turn() {
    for command in [0x4340_3d05, 0x4340_3d0e] {
        let device_ns = ERA_NS + FROM_NS + 3_200 + DEVICE_AHEAD_NS;
        let given = [FROM_NS + ERA_NS, device_ns, TO_NS + ERA_NS];
        let second = [device_ns + 6_400, TO_NS + 6_400 + ERA_NS, 4711, 4711];
        let mut bytes = answer(command, [2, 0], &[&given[..], &second].concat());
        assert!(convert(command, &mut bytes, &Fifth));
        let host_ns = |wall_ns| ERA_NS + fifth(wall_ns) + HOST_AHEAD_NS;
        let true_ns = |wall_ns| ERA_NS + fifth(wall_ns) + DEVICE_AHEAD_NS;
        let expected = [
            host_ns(FROM_NS),
            true_ns(FROM_NS + 3_200),
            host_ns(TO_NS),
            true_ns(TO_NS + 3_200),
            host_ns(TO_NS + 6_400),
            // The data after the requested samples must not change.
            4711,
            4711,
        ];
        assert_eq!(stamps_of(&mut bytes, HEAD, 7), expected);
    }
}

#[test]
fn threes_on_each_of_the_systems_clocks() {
    for command in [0xc4c0_3d09, 0xc4c0_3d12, 0xc4c0_3d16] {
        let zeroes = [(0, ERA_NS), (1, 0), (4, RAW_AHEAD_NS)];
        for (clock, zero_ns) in zeroes {
            let device_ns = ERA_NS + FROM_NS + 3_200 + DEVICE_AHEAD_NS;
            let given = [FROM_NS + zero_ns, device_ns, TO_NS + zero_ns, 1, 2, 3];
            let mut bytes = answer(command, [1, clock], &given);
            assert!(convert(command, &mut bytes, &Fifth));
            let expected = [
                zero_ns + fifth(FROM_NS) + HOST_AHEAD_NS,
                ERA_NS + fifth(FROM_NS + 3_200) + DEVICE_AHEAD_NS,
                zero_ns + fifth(TO_NS) + HOST_AHEAD_NS,
                1,
                2,
                3,
            ];
            assert_eq!(stamps_of(&mut bytes, HEAD, 6), expected, "clock {clock}");
        }
        let mut bytes = answer(command, [1, 17], &[1, 2, 3]);
        let before = bytes.clone();
        assert!(!convert(command, &mut bytes, &Fifth), "no clock of ours");
        assert_eq!(bytes, before);
    }
}

#[test]
fn three_of_one_instant() {
    for command in [0xc040_3d08, 0xc040_3d11, 0xc040_3d15] {
        let device_ns = ERA_NS + FROM_NS + DEVICE_AHEAD_NS;
        let given = [device_ns, ERA_NS + FROM_NS, RAW_AHEAD_NS + FROM_NS];
        let mut bytes = answer(command, [0, 0], &given);
        assert!(convert(command, &mut bytes, &Fifth));
        let then_ns = fifth(FROM_NS);
        let expected = [
            ERA_NS + then_ns + DEVICE_AHEAD_NS,
            ERA_NS + then_ns + HOST_AHEAD_NS,
            RAW_AHEAD_NS + then_ns + HOST_AHEAD_NS,
        ];
        assert_eq!(stamps_of(&mut bytes, 0, 3), expected);
    }
}

/// Another thread of the guest may write to the memory during the conversion.
#[test]
fn random_bytes_in_guest_memory_are_harmless() {
    let mut random = SplitMix64(1);
    for turn in 0..20_000 {
        let command = COMMANDS[turn % COMMANDS.len()];
        let mut bytes = answer(command, [i32::MAX, 0], &[]);
        for byte in &mut bytes[..] {
            *byte = random.bits() as u8;
        }
        if turn % 3 == 0 {
            bytes[4..8].fill(0);
        }
        convert(command, &mut bytes, &Fifth);
        bytes.fill(if turn % 2 == 0 { 0x7f } else { 0xff });
        convert(command, &mut bytes, &Fifth);
    }
    assert!(!convert(0x4340_3d05, &mut [0; 16], &Fifth));
    assert!(!convert(7, &mut [0; 832], &Fifth));
}

#[test]
fn the_sizes_are_those_in_the_commands() {
    for command in COMMANDS {
        let bytes = Layout::of(command).expect("a command").bytes();
        let rounded = bytes.next_multiple_of(64); // _PRECISE ends in 16 unused bytes
        let said = (command >> 16 & 0x3fff) as usize;
        assert!(
            bytes == said || rounded == said,
            "{command:x}: {bytes} {said}"
        );
    }
}
