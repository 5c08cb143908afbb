//! Proptest strategies that generate well-formed messages and TLVs.

use proptest::prelude::*;
use timeloom_wire::message::*;
use timeloom_wire::tlv::*;
use timeloom_wire::*;

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (0u64..1 << 48, 0u32..1_000_000_000).prop_map(|(s, ns)| Timestamp::new(s, ns).unwrap())
}

fn port() -> impl Strategy<Value = PortIdentity> {
    any::<([u8; 8], u16)>().prop_map(|(clock, port)| PortIdentity {
        clock: ClockIdentity(clock),
        port,
    })
}

fn announce() -> impl Strategy<Value = Announce> {
    (
        timestamp(),
        any::<(i16, u8, u8, [u8; 8], u16, u8)>(),
        any::<(u8, u8, u16)>(),
    )
        .prop_map(|(origin, a, q)| Announce {
            origin,
            current_utc_offset: a.0,
            grandmaster_priority1: a.1,
            grandmaster_quality: ClockQuality {
                class: q.0,
                accuracy: q.1,
                offset_scaled_log_variance: q.2,
            },
            grandmaster_priority2: a.2,
            grandmaster: ClockIdentity(a.3),
            steps_removed: a.4,
            time_source: a.5,
        })
}

fn management() -> impl Strategy<Value = Management> {
    let action = prop_oneof![
        Just(ManagementAction::Get),
        Just(ManagementAction::Set),
        Just(ManagementAction::Response),
        Just(ManagementAction::Command),
        Just(ManagementAction::Acknowledge),
        (5u8..16).prop_map(ManagementAction::Reserved),
    ];
    (port(), any::<(u8, u8)>(), action).prop_map(|(target, hops, action)| Management {
        target,
        starting_boundary_hops: hops.0,
        boundary_hops: hops.1,
        action,
    })
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        timestamp().prop_map(|origin| Sync { origin }.into()),
        timestamp().prop_map(|origin| DelayReq { origin }.into()),
        timestamp().prop_map(|origin| PdelayReq { origin }.into()),
        (timestamp(), port()).prop_map(|(request_receipt, requesting)| PdelayResp {
            request_receipt,
            requesting
        }
        .into()),
        timestamp().prop_map(|precise_origin| FollowUp { precise_origin }.into()),
        (timestamp(), port()).prop_map(|(receive, requesting)| DelayResp {
            receive,
            requesting
        }
        .into()),
        (timestamp(), port()).prop_map(|(response_origin, requesting)| PdelayRespFollowUp {
            response_origin,
            requesting
        }
        .into()),
        announce().prop_map(Body::from),
        port().prop_map(|target| Signaling { target }.into()),
        management().prop_map(Body::from),
    ]
}

/// Generates any message without TLVs; the header agrees with the body.
pub(crate) fn message() -> impl Strategy<Value = Message<'static>> {
    let numbers = any::<(u8, u16, i64, u32, u16, u8, i8)>();
    (body(), port(), 0u16..1 << 12, 0u8..16, numbers).prop_map(
        |(body, source, sdo_id, minor_version, n)| Message {
            header: Header {
                message_type: body.message_type(),
                sdo_id,
                minor_version,
                domain: n.0,
                flags: Flags(n.1),
                correction: TimeInterval(n.2),
                message_type_specific: n.3,
                source,
                sequence_id: n.4,
                control: n.5,
                log_message_interval: n.6,
            },
            body,
            tlvs: Tlvs::EMPTY,
        },
    )
}

fn even(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<[u8; 2]>(), 0..max).prop_map(|pairs| pairs.concat())
}

fn one_tlv() -> impl Strategy<Value = Vec<u8>> {
    fn build(
        kind: TlvType,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), EmitError>,
    ) -> Vec<u8> {
        let mut buffer = [0u8; 2048];
        let mut writer = TlvWriter::new(&mut buffer);
        writer.push(kind, fill).unwrap();
        writer.finish().as_bytes().to_vec()
    }
    let text = prop::collection::vec(any::<u8>(), 0..11);
    prop_oneof![
        (any::<u16>(), even(20)).prop_map(|(id, data)| build(TlvType::MANAGEMENT, |to| {
            ManagementTlv { id, data: &data }.emit(to)
        })),
        (any::<(u16, u16)>(), text.clone()).prop_map(|((error, id), text)| build(
            TlvType::MANAGEMENT_ERROR_STATUS,
            |to| ManagementErrorStatus {
                error,
                id,
                display: PtpText(&text)
            }
            .emit(to)
        )),
        (0u8..16, any::<(i8, u32, bool)>()).prop_map(
            |(message_type, (log_interval, duration_s, renewal_invited))| {
                let granted = UnicastRequest {
                    message_type,
                    log_interval,
                    duration_s,
                };
                if duration_s % 2 == 0 {
                    return build(TlvType::REQUEST_UNICAST_TRANSMISSION, |to| granted.emit(to));
                }
                build(TlvType::GRANT_UNICAST_TRANSMISSION, |to| {
                    UnicastGrant {
                        granted,
                        renewal_invited,
                    }
                    .emit(to)
                })
            }
        ),
        (0u8..16).prop_map(
            |message_type| build(TlvType::CANCEL_UNICAST_TRANSMISSION, |to| UnicastCancel {
                message_type
            }
            .emit(to))
        ),
        prop::collection::vec(any::<[u8; 8]>(), 0..5)
            .prop_map(|path| build(TlvType::PATH_TRACE, |to| to.put(&path.concat()))),
        (any::<(u8, i32, i32)>(), 0u64..1 << 48, text).prop_map(|(n, next_jump_s, text)| build(
            TlvType::ALTERNATE_TIME_OFFSET_INDICATOR,
            |to| AlternateTimeOffset {
                key: n.0,
                current_offset_s: n.1,
                jump_s: n.2,
                next_jump_s,
                display: PtpText(&text)
            }
            .emit(to)
        )),
        any::<(u16, u32, u32, bool)>().prop_map(|(grandmaster_id, first, second, new)| {
            let version = if new {
                PowerProfileVersion::V2017 { total_ns: first }
            } else {
                PowerProfileVersion::V2011 {
                    grandmaster_ns: first,
                    network_ns: second,
                }
            };
            build(TlvType::ORGANIZATION_EXTENSION, |to| {
                PowerProfile {
                    grandmaster_id,
                    version,
                }
                .emit(to)
            })
        }),
        (any::<(u8, u8, u32)>(), even(16)).prop_map(|((policy, parameters, key_id), rest)| build(
            TlvType::AUTHENTICATION,
            |to| Authentication {
                policy,
                parameters,
                key_id,
                rest: &rest
            }
            .emit(to)
        )),
        (any::<([u8; 3], [u8; 3])>(), even(40)).prop_map(|((organization, sub_type), data)| build(
            TlvType::ORGANIZATION_EXTENSION_DO_NOT_PROPAGATE,
            |to| OrganizationExtension {
                organization,
                sub_type,
                data: &data
            }
            .emit(to)
        )),
        (0x2000u16..0x2007, even(20))
            .prop_map(|(kind, value)| build(TlvType(kind), |to| to.put(&value))),
    ]
}

/// Generates up to five well-formed TLVs.
pub(crate) fn tlv_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(one_tlv(), 0..5).prop_map(|tlvs| tlvs.concat())
}
