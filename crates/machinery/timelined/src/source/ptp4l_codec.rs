//! Messages of linuxptp: answers of the management socket, and those of the slave event monitor.

use timeloom_wire::message::{Management, ManagementAction};
use timeloom_wire::tlv::{ManagementTlv, TlvBody, TlvType, TlvWriter};
use timeloom_wire::{
    Body, ClockIdentity, Header, Message, MessageType, ParseError, PortIdentity, Reader, Timestamp,
};

/// Pair of timestamps that the slave event monitor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimingRecord {
    /// Port identity of the master.
    pub(super) master: PortIdentity,
    /// Kind of the event message.
    pub(super) kind: TimingKind,
    /// Departure of the event message by its sender's clock, in nanoseconds.
    pub(super) origin_ns: i64,
    /// Arrival of the event message by its receiver's clock, in nanoseconds.
    pub(super) receipt_ns: i64,
    /// Sum of the correction fields, in 2^-16 ns.
    pub(super) correction_2_16: i64,
}

/// Kind of event message of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimingKind {
    /// Sync message from the master to this host, with T1 and T2.
    Sync,
    /// Delay_Req message from this host to the master, with T3 and T4.
    DelayReq,
}

/// SLAVE_RX_SYNC_TIMING_DATA (IEEE 1588-2019, 16.11.4.1).
const RX_SYNC_TIMING: TlvType = TlvType(0x8004);
/// SLAVE_DELAY_TIMING_DATA_NP of linuxptp.
const DELAY_TIMING: TlvType = TlvType(0x7f00);

/// Decodes the timestamp pairs in a packet of the slave event monitor.
///
/// # Errors
/// Fails if the packet is not from a slave event monitor.
pub(super) fn parse_timing(packet: &[u8]) -> Result<Vec<TimingRecord>, ParseError> {
    let message = Message::parse(packet)?;
    let mut all = Vec::new();
    for tlv in message.tlvs.iter() {
        let kind = match tlv.kind {
            RX_SYNC_TIMING => TimingKind::Sync,
            DELAY_TIMING => TimingKind::DelayReq,
            _ => continue,
        };
        let mut from = Reader::new(tlv.value);
        let master = PortIdentity::parse(&mut from)?;
        while !from.rest().is_empty() {
            from.u16()?; // sequenceId
            let origin_ns = Timestamp::parse(&mut from)?.as_ns();
            let correction_2_16 = from.i64()?;
            if kind == TimingKind::Sync {
                from.i32()?; // scaledCumulativeRateOffset
            }
            let receipt_ns = Timestamp::parse(&mut from)?.as_ns();
            all.push(TimingRecord {
                master,
                kind,
                origin_ns,
                receipt_ns,
                correction_2_16,
            });
        }
    }
    Ok(all)
}

/// Data sets that the daemon requests, by their management id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum DataSet {
    Current = 0x2001,
    Parent = 0x2002,
    TimeProperties = 0x2003,
}

/// Encodes a request for a data set.
pub(super) fn get(set: DataSet, domain: u8, sequence_id: u16) -> Vec<u8> {
    let everyone = PortIdentity {
        clock: ClockIdentity::ALL,
        port: 0xffff,
    };
    let us = PortIdentity {
        clock: ClockIdentity([0; 8]),
        port: std::process::id() as u16,
    };
    let header = Header {
        domain,
        ..Header::new(MessageType::Management, us, sequence_id)
    };
    let body = Management {
        target: everyone,
        starting_boundary_hops: 0,
        boundary_hops: 0,
        action: ManagementAction::Get,
    };
    let mut room = [0; 16];
    let mut tlvs = TlvWriter::new(&mut room);
    let body_of_tlv = ManagementTlv {
        id: set as u16,
        data: &[],
    };
    tlvs.push(TlvType::MANAGEMENT, |to| body_of_tlv.emit(to))
        .expect("16 bytes are room for 6");
    let mut packet = vec![0; 128];
    let length = Message::new(header, body)
        .with_tlvs(tlvs.finish())
        .emit(&mut packet)
        .expect("128 bytes are room for 54");
    packet.truncate(length);
    packet
}

/// Content of the answers that the daemon uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataSetAnswer {
    /// Number of hops between the grandmaster and this host.
    Current { steps_removed: u16 },
    /// Port identity of the master, and `clockAccuracy` of the grandmaster.
    Parent { master: PortIdentity, accuracy: u8 },
    /// Time scale of the grandmaster.
    TimeProperties {
        utc_offset_s: Option<i16>,
        ptp_timescale: bool,
    },
}

/// Decodes an answer; returns `None` if it does not belong to the request or the daemon does not
/// use its data set.
pub(super) fn parse_answer(packet: &[u8], sequence_id: u16) -> Option<DataSetAnswer> {
    let message = Message::parse(packet).ok()?;
    let Body::Management(body) = message.body else {
        return None;
    };
    if body.action != ManagementAction::Response || message.header.sequence_id != sequence_id {
        return None;
    }
    let tlv = message.tlvs.iter().next()?;
    let TlvBody::Management(answer) = TlvBody::parse(tlv).ok()? else {
        return None;
    };
    let mut from = Reader::new(answer.data);
    match answer.id {
        id if id == DataSet::Current as u16 => Some(DataSetAnswer::Current {
            steps_removed: from.u16().ok()?,
        }),
        id if id == DataSet::Parent as u16 => {
            let master = PortIdentity::parse(&mut from).ok()?;
            // Skips the statistics, priority 1 and the clock's class.
            from.take(2 + 2 + 4 + 1 + 1).ok()?;
            Some(DataSetAnswer::Parent {
                master,
                accuracy: from.u8().ok()?,
            })
        }
        id if id == DataSet::TimeProperties as u16 => {
            let utc_offset_s = from.u16().ok()? as i16;
            let flags = from.u8().ok()?;
            Some(DataSetAnswer::TimeProperties {
                utc_offset_s: (flags & 4 != 0).then_some(utc_offset_s),
                ptp_timescale: flags & 8 != 0,
            })
        }
        _ => None,
    }
}

/// Returns the maximum error, in nanoseconds, that a value of `clockAccuracy` states (IEEE
/// 1588-2019, table 5); `None` if the value states none.
pub(super) fn accuracy_ns(accuracy: u8) -> Option<i64> {
    Some(match accuracy {
        0x17..=0x1d => 1,
        0x1e => 3,
        0x1f => 10,
        0x20 => 25,
        0x21 => 100,
        0x22 => 250,
        0x23 => 1_000,
        0x24 => 2_500,
        0x25 => 10_000,
        0x26 => 25_000,
        0x27 => 100_000,
        0x28 => 250_000,
        0x29 => 1_000_000,
        0x2a => 2_500_000,
        0x2b => 10_000_000,
        0x2c => 25_000_000,
        0x2d => 100_000_000,
        0x2e => 250_000_000,
        0x2f => 1_000_000_000,
        0x30 => 10_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        HEXLOWER.decode(&digits).unwrap()
    }

    /// Builds a packet of the monitor by the layout in the standard.
    fn monitor_packet(kind: &str, record: &str) -> Vec<u8> {
        let value = hex(record);
        let tlv_length = (10 + value.len()) as u16;
        let mut packet = hex("0c02");
        packet.extend((34 + 10 + 4 + 10 + value.len() as u16).to_be_bytes());
        packet.extend(hex(
            "00 00 0000 0000000000000000 00000000 aabbccfffeddeeff 0001 0007 05 7f",
        ));
        packet.extend(hex("ffffffffffffffff ffff"));
        packet.extend(hex(kind));
        packet.extend(tlv_length.to_be_bytes());
        packet.extend(hex("112233fffe445566 0001"));
        packet.extend(value);
        packet
    }

    #[test]
    fn the_monitor_is_read_by_the_letter() {
        let sync = monitor_packet(
            "8004",
            "0009 000000000002 00000001 0000000000018000 00000000 000000000002 00000a01",
        );
        let records = parse_timing(&sync).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].kind, TimingKind::Sync);
        assert_eq!(
            (records[0].origin_ns, records[0].receipt_ns),
            (2_000_000_001, 2_000_002_561)
        );
        assert_eq!(records[0].correction_2_16, 0x18000);
        assert_eq!(records[0].master.port, 1);
        let delay = monitor_packet(
            "7f00",
            "0009 000000000002 00000001 ffffffffffff0000 000000000002 00000a01",
        );
        let records = parse_timing(&delay).unwrap();
        assert_eq!(records[0].kind, TimingKind::DelayReq);
        assert_eq!(records[0].correction_2_16, -65536);
    }

    #[test]
    fn a_request_is_answered_to_by_number() {
        let request = get(DataSet::TimeProperties, 3, 77);
        let message = Message::parse(&request).unwrap();
        assert_eq!((message.header.domain, request.len()), (3, 54));
        assert_eq!(parse_answer(&request, 77), None, "a question is no answer");
        let mut answer = request.clone();
        answer[46] = 2; // RESPONSE
        answer.extend([0, 37, 0x0c, 0xa0]);
        let length = (answer.len() as u16).to_be_bytes();
        answer[2..4].copy_from_slice(&length);
        answer[50..52].copy_from_slice(&6u16.to_be_bytes());
        let read = DataSetAnswer::TimeProperties {
            utc_offset_s: Some(37),
            ptp_timescale: true,
        };
        assert_eq!(parse_answer(&answer, 77), Some(read));
        assert_eq!(parse_answer(&answer, 78), None);
    }

    proptest! {
        #[test]
        fn hostile_packets_do_no_harm(packet in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..80) {
            let _ = parse_timing(&packet);
            let _ = parse_answer(&packet, 0);
            let whole = monitor_packet("7f00", "0009 000000000002 00000001 ffffffffffff0000 000000000002 00000a01");
            let _ = parse_timing(&whole[..cut.min(whole.len())]);
            let mut bent = whole.clone();
            for (byte, with) in bent.iter_mut().skip(cut).zip(&packet) {
                *byte ^= with;
            }
            let _ = parse_timing(&bent);
        }
    }
}
