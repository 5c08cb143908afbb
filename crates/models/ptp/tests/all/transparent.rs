//! A transparent clock, tested message by message.

use crate::world::keys::identity;
use timeloom_ptp::{
    ClockReport, DriverAction, DropReason, Local, Profile, PtpPacket, SplitMix64, Stamp, Token,
    TransparentClock, TransparentConfig,
};
use timeloom_time::Instant;
use timeloom_wire::message::{
    Body, DelayReq, DelayResp, FollowUp, PdelayReq, PdelayResp, PdelayRespFollowUp, Sync,
};
use timeloom_wire::{
    Flags, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp, VlanTag,
};

const GM: PortIdentity = PortIdentity {
    clock: identity_const(),
    port: 1,
};

const fn identity_const() -> timeloom_wire::ClockIdentity {
    timeloom_wire::ClockIdentity([9; 8])
}

fn at(ms: i64) -> Instant<Local> {
    Instant::from_ns(ms * 1_000_000)
}

fn packet(message: &Message<'_>) -> PtpPacket {
    let mut buffer = [0; 256];
    let length = message.emit(&mut buffer).unwrap();
    PtpPacket {
        bytes: buffer[..length].to_vec(),
        vlan: Some(VlanTag::POWER_PROFILE),
    }
}

fn sync(sequence: u16, two_step: bool, correction: i64) -> PtpPacket {
    let mut header = Header::new(MessageType::Sync, GM, sequence);
    header.flags = if two_step { Flags::TWO_STEP } else { Flags(0) };
    header.correction = TimeInterval(correction);
    packet(&Message::new(
        header,
        Sync {
            origin: Timestamp::from_ns(77),
        },
    ))
}

fn follow_up(sequence: u16, correction: i64) -> PtpPacket {
    let mut header = Header::new(MessageType::FollowUp, GM, sequence);
    header.correction = TimeInterval(correction);
    packet(&Message::new(
        header,
        FollowUp {
            precise_origin: Timestamp::from_ns(1_000),
        },
    ))
}

/// Returns an end-to-end clock, because then no link delay has to be measured first.
fn clock(ports: u16) -> TransparentClock {
    TransparentClock::new(
        TransparentConfig::new(identity(5), ports, Profile::DEFAULT),
        at(0),
    )
}

#[derive(Default)]
struct Output {
    sent: Vec<(u16, PtpPacket, Option<Token>)>,
    dropped: Vec<DropReason>,
}

fn drain(clock: &mut TransparentClock) -> Output {
    let mut output = Output::default();
    while let Some(action) = clock.poll_action() {
        match action {
            DriverAction::Send {
                port,
                packet,
                token,
            } => output.sent.push((port, packet, token)),
            DriverAction::Report(ClockReport::Dropped { reason, .. }) => {
                output.dropped.push(reason)
            }
            _ => {}
        }
    }
    output
}

fn correction(packet: &PtpPacket) -> TimeInterval {
    Message::parse(&packet.bytes).unwrap().header.correction
}

fn ns(value: i64) -> Option<Stamp> {
    Some(Stamp::from_ns(value))
}

#[test]
fn each_egress_port_has_its_own_residence() {
    let mut clock = clock(4);
    clock.handle_receive(at(0), 2, &sync(1, true, 0), ns(1_000));
    let seen = drain(&mut clock);
    assert_eq!(
        seen.sent.iter().map(|(port, ..)| *port).collect::<Vec<_>>(),
        [1, 3, 4]
    );
    assert!(
        seen.sent
            .iter()
            .all(|(_, packet, _)| *packet == sync(1, true, 0)),
        "event first, untouched, tag kept"
    );
    for (n, (port, _, token)) in seen.sent.iter().enumerate() {
        clock.handle_transmit_stamp(
            at(0),
            *port,
            token.unwrap(),
            ns(1_000 + 100 * (n as i64 + 1)),
        );
    }
    clock.handle_receive(at(1), 2, &follow_up(1, 5 << 16), None);
    let follow_ups = drain(&mut clock).sent;
    let corrections: Vec<_> = follow_ups
        .iter()
        .map(|(port, packet, _)| (*port, correction(packet).round_ns()))
        .collect();
    assert_eq!(corrections, [(1, 105), (3, 205), (4, 305)]);
}

#[test]
fn follow_up_and_stamp_may_come_in_any_order() {
    for order in 0..4 {
        let mut clock = clock(2);
        if order == 3 {
            // A Follow_Up that arrives before its Sync.
            clock.handle_receive(at(0), 1, &follow_up(1, 0), None);
            assert!(drain(&mut clock).sent.is_empty());
        }
        clock.handle_receive(at(0), 1, &sync(1, true, 0), ns(0));
        let token = drain(&mut clock).sent[0].2.unwrap();
        if order == 1 {
            clock.handle_receive(at(0), 1, &follow_up(1, 0), None);
            assert!(drain(&mut clock).sent.is_empty());
        }
        clock.handle_transmit_stamp(at(0), 2, token, if order == 2 { None } else { ns(400) });
        if matches!(order, 0 | 2) {
            clock.handle_receive(at(0), 1, &follow_up(1, 0), None);
        }
        let seen = drain(&mut clock);
        if order == 2 {
            assert!(seen.sent.is_empty());
            assert_eq!(
                seen.dropped,
                [DropReason::LostStamp],
                "and the port goes on:"
            );
            clock.handle_receive(at(1), 1, &sync(2, true, 0), ns(0));
            assert_eq!(drain(&mut clock).sent.len(), 1);
        } else {
            assert_eq!(
                correction(&seen.sent[0].1),
                TimeInterval::from_ns(400),
                "order {order}"
            );
        }
    }
}

#[test]
fn a_one_step_sync_becomes_a_two_step_one() {
    let mut clock = clock(2);
    clock.handle_receive(at(0), 1, &sync(1, false, 3 << 16), ns(0));
    let (_, forwarded, token) = drain(&mut clock).sent.remove(0);
    assert!(
        Message::parse(&forwarded.bytes)
            .unwrap()
            .header
            .flags
            .has(Flags::TWO_STEP)
    );
    clock.handle_transmit_stamp(at(0), 2, token.unwrap(), ns(250));
    let (_, follow_up, _) = drain(&mut clock).sent.remove(0);
    let message = Message::parse(&follow_up.bytes).unwrap();
    assert_eq!(
        message.body,
        Body::FollowUp(FollowUp {
            precise_origin: Timestamp::from_ns(77)
        })
    );
    assert_eq!(
        message.header.correction.round_ns() + correction(&forwarded).round_ns(),
        253
    );
}

#[test]
fn a_step_of_the_clock_is_no_residence() {
    for left in [-5, 600_000_000] {
        let mut clock = clock(2);
        clock.handle_receive(at(0), 1, &sync(1, true, 0), ns(0));
        let token = drain(&mut clock).sent[0].2.unwrap();
        clock.handle_transmit_stamp(at(0), 2, token, ns(left));
        clock.handle_receive(at(0), 1, &follow_up(1, 0), None);
        let seen = drain(&mut clock);
        assert!(seen.sent.is_empty());
        assert_eq!(seen.dropped, [DropReason::Residence]);
    }
}

#[test]
fn queues_are_bounded_and_remaining_entries_expire() {
    let mut clock = clock(2);
    for sequence in 0..1000 {
        clock.handle_receive(at(0), 1, &sync(sequence, true, 0), ns(0));
        clock.handle_receive(at(0), 1, &follow_up(sequence.wrapping_add(20_000), 0), None);
    }
    let full = drain(&mut clock).dropped.len();
    assert_eq!(full, 1000 - 64 + 1000 - 16);
    clock.handle_wake(at(5_000), &mut SplitMix64(1));
    assert_eq!(
        drain(&mut clock).dropped,
        vec![DropReason::Unmatched; 64 + 16]
    );
    assert_eq!(clock.next_wake(), None);
}

#[test]
fn old_versions_pass_and_unknown_ones_do_not() {
    let mut clock = clock(3);
    let v1 = PtpPacket {
        bytes: vec![0, 1, 0, 1, 9, 9],
        vlan: None,
    };
    clock.handle_receive(at(0), 1, &v1, None);
    let seen = drain(&mut clock);
    assert!(
        seen.sent
            .iter()
            .all(|(_, packet, token)| *packet == v1 && token.is_none())
    );
    assert_eq!(seen.sent.len(), 2);
    let v3 = PtpPacket {
        bytes: vec![0, 3, 0, 44],
        vlan: None,
    };
    clock.handle_receive(at(0), 1, &v3, ns(0));
    assert_eq!(drain(&mut clock).dropped, [DropReason::Version]);
}

#[test]
fn foreign_domains_and_unknown_tlvs_pass_with_their_residence() {
    let mut clock = clock(2);
    let foreign = |mut packet: PtpPacket| {
        packet.bytes[4] = 42;
        packet
    };
    clock.handle_receive(at(0), 1, &foreign(sync(1, true, 0)), ns(0));
    let token = drain(&mut clock).sent[0].2.unwrap();
    clock.handle_transmit_stamp(at(0), 2, token, ns(10));
    let mut with_tlv = foreign(follow_up(1, 0));
    with_tlv
        .bytes
        .extend_from_slice(&[0x20, 0x06, 0, 2, 0xab, 0xcd]);
    with_tlv.bytes[3] = 50;
    clock.handle_receive(at(0), 1, &with_tlv, None);
    let out = &drain(&mut clock).sent[0].1;
    assert_eq!(
        out.bytes[16..],
        with_tlv.bytes[16..],
        "nothing but the correction is changed"
    );
    assert_eq!(correction(out).round_ns(), 10);
}

#[test]
fn a_delay_request_is_accounted_for_in_its_response() {
    let mut clock = clock(3);
    let slave = PortIdentity {
        clock: identity(8),
        port: 1,
    };
    let request = packet(&Message::new(
        Header::new(MessageType::DelayReq, slave, 6),
        DelayReq::default(),
    ));
    clock.handle_receive(at(0), 3, &request, ns(100));
    for (port, _, token) in drain(&mut clock).sent {
        clock.handle_transmit_stamp(at(0), port, token.unwrap(), ns(100 + 50 * i64::from(port)));
    }
    let body = DelayResp {
        receive: Timestamp::from_ns(9),
        requesting: slave,
    };
    let response = packet(&Message::new(
        Header::new(MessageType::DelayResp, GM, 6),
        body,
    ));
    clock.handle_receive(at(0), 2, &response, None);
    let seen = drain(&mut clock);
    assert!(
        seen.sent
            .iter()
            .all(|(_, packet, _)| correction(packet).round_ns() == 100),
        "by the port it came back"
    );
    clock.handle_receive(
        at(0),
        2,
        &packet(&Message::new(
            Header::new(MessageType::DelayResp, GM, 7),
            body,
        )),
        None,
    );
    assert_eq!(drain(&mut clock).dropped, [DropReason::Unmatched]);
}

#[test]
fn peer_delay_answers_go_back_with_both_residences_in_any_order_of_stamps() {
    let asker = PortIdentity {
        clock: identity(8),
        port: 1,
    };
    let header = |kind, source, flags| {
        let mut header = Header::new(kind, source, 6);
        header.flags = flags;
        header
    };
    for (two_step, stamps_late) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut clock = clock(3);
        let request = header(MessageType::PdelayReq, asker, Flags(0));
        let request = packet(&Message::new(request, PdelayReq::default()));
        clock.handle_receive(at(0), 3, &request, ns(100));
        let sent = drain(&mut clock).sent;
        assert_eq!(sent.len(), 2);
        let left = |clock: &mut TransparentClock| {
            for (port, _, token) in &sent {
                let left = 100 + 50 * i64::from(*port);
                clock.handle_transmit_stamp(at(0), *port, token.unwrap(), ns(left));
            }
        };
        if !stamps_late {
            left(&mut clock);
        }
        let flags = if two_step { Flags::TWO_STEP } else { Flags(0) };
        let mut response = header(MessageType::PdelayResp, GM, flags);
        response.correction = TimeInterval::from_ns(7);
        let body = PdelayResp {
            request_receipt: Timestamp::ZERO,
            requesting: asker,
        };
        clock.handle_receive(at(0), 2, &packet(&Message::new(response, body)), ns(900));
        let (port, response, token) = drain(&mut clock).sent.remove(0);
        assert_eq!((port, correction(&response).round_ns()), (3, 7));
        let flags = Message::parse(&response.bytes).unwrap().header.flags;
        assert!(flags.has(Flags::TWO_STEP));
        if !stamps_late {
            clock.handle_transmit_stamp(at(0), 3, token.unwrap(), ns(930));
        }
        if two_step {
            let follow_up = header(MessageType::PdelayRespFollowUp, GM, Flags(0));
            let body = PdelayRespFollowUp {
                response_origin: Timestamp::ZERO,
                requesting: asker,
            };
            let follow_up = packet(&Message::new(follow_up, body));
            clock.handle_receive(at(0), 2, &follow_up, None);
        }
        if stamps_late {
            assert!(drain(&mut clock).sent.is_empty(), "not before all is known");
            clock.handle_transmit_stamp(at(0), 3, token.unwrap(), ns(930));
            left(&mut clock);
        }
        let seen = drain(&mut clock);
        assert_eq!(
            seen.sent.len(),
            1,
            "{two_step} {stamps_late}: {:?}",
            seen.dropped
        );
        let (port, follow_up, _) = &seen.sent[0];
        // The residence time is 100 ns for the request, on port 2, and 30 ns for the response.
        assert_eq!((*port, correction(follow_up).round_ns()), (3, 130));
        let parsed = Message::parse(&follow_up.bytes).unwrap();
        assert!(matches!(parsed.body, Body::PdelayRespFollowUp(body) if body.requesting == asker));
    }
    // No clock has sent a request for this response.
    let mut clock = clock(3);
    let response = header(MessageType::PdelayResp, GM, Flags::TWO_STEP);
    let body = PdelayResp {
        request_receipt: Timestamp::ZERO,
        requesting: asker,
    };
    clock.handle_receive(at(0), 2, &packet(&Message::new(response, body)), ns(900));
    let seen = drain(&mut clock);
    assert!(seen.sent.is_empty());
    assert_eq!(seen.dropped, [DropReason::Unmatched]);
}
