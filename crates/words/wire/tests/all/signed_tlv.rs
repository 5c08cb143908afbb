//! The signed TLV: its sizes, its round trip, and the rejection of lengths that leave unsigned
//! bytes.

use proptest::prelude::*;
use timeloom_wire::tlv::{
    EntryForm, SignedEntry, SignedFlags, SignedHead, SignedTlv, Signer, SubType, Suite, TlvWriter,
    Tlvs,
};
use timeloom_wire::{ClockIdentity, ParseError, TimeInterval};

const ORGANIZATION: [u8; 3] = [0x00, 0x80, 0x00];

fn head(suite: Suite, form: EntryForm) -> SignedHead {
    let flags = SignedFlags(SignedFlags::NONCE | u8::from(form != EntryForm::Full));
    let sub_type = SubType::FollowUp;
    SignedHead {
        organization: ORGANIZATION,
        sub_type,
        suite,
        flags,
        key_epoch: 3,
        sequence_high: 0x1234_5678,
    }
}

fn entry(form: EntryForm, n: u64, contribution: i64) -> SignedEntry {
    match form {
        EntryForm::Full => SignedEntry {
            signer: Signer::Identity(ClockIdentity(n.to_be_bytes())),
            ingress_port: 1,
            egress_port: n as u8,
            contribution: TimeInterval(contribution),
        },
        EntryForm::Compact | EntryForm::CompactWithPort => SignedEntry {
            signer: Signer::Index(n as u16),
            ingress_port: 0,
            egress_port: if form == EntryForm::Compact {
                0
            } else {
                (n * 5 % 64) as u8
            },
            contribution: TimeInterval(contribution >> 16),
        },
    }
}

fn build<'a>(
    suite: Suite,
    form: EntryForm,
    entries: &[SignedEntry],
    buffer: &'a mut [u8],
) -> Tlvs<'a> {
    let mut writer = TlvWriter::new(buffer);
    writer
        .push(SignedTlv::KIND, |to| {
            SignedTlv::emit(&head(suite, form), entries.len() as u8, to, |to| {
                if suite == Suite::Ed25519 {
                    to.put(&[0x67; 64])?;
                }
                for (at, entry) in entries.iter().enumerate() {
                    entry.emit(to)?;
                    if suite == Suite::Ed25519 {
                        to.put(&[at as u8; 64])?;
                    }
                }
                if suite.is_aggregate() {
                    to.put(&[0xb1; 48])
                } else {
                    Ok(())
                }
            })
        })
        .unwrap();
    writer.finish()
}

#[test]
fn sizes_are_those_of_the_design() {
    // Expected lengths of the TLV in octets at 0, 1 and 16 hops, from the table of the layout.
    for (suite, form, sizes) in [
        (Suite::Bls, EntryForm::Full, [66, 84, 354]),
        (Suite::Bls, EntryForm::Compact, [66, 74, 194]),
        (Suite::BlsOnce, EntryForm::Full, [66, 84, 354]),
        (Suite::BlsOnce, EntryForm::CompactWithPort, [66, 74, 194]),
        (Suite::Ed25519, EntryForm::Full, [82, 164, 1394]),
        (Suite::Ed25519, EntryForm::Compact, [82, 154, 1234]),
    ] {
        for (hops, size) in [0u8, 1, 16].into_iter().zip(sizes) {
            assert_eq!(SignedTlv::length(suite, form, hops), size);
            let entries: Vec<_> = (0..hops).map(|n| entry(form, n.into(), -7)).collect();
            assert_eq!(
                build(suite, form, &entries, &mut [0; 1500])
                    .as_bytes()
                    .len(),
                size
            );
        }
    }
}

#[test]
fn a_port_and_the_index_beside_it_are_never_shortened() {
    for (index, port, fits) in [
        (1023, 63, true),
        (1024, 0, true),
        (1024, 1, false),
        (1, 64, false),
    ] {
        let entry = SignedEntry {
            signer: Signer::Index(index),
            egress_port: port,
            ..entry(EntryForm::Compact, 1, 0)
        };
        let mut buffer = [0; 64];
        let mut writer = TlvWriter::new(&mut buffer);
        let written = writer.push(SignedTlv::KIND, |to| entry.emit(to));
        assert_eq!(written.is_ok(), fits, "{index} {port}");
    }
}

#[test]
fn a_contribution_is_never_shortened() {
    let too_big = SignedEntry {
        contribution: TimeInterval(1 << 47),
        ..entry(EntryForm::Compact, 1, 0)
    };
    let mut buffer = [0; 64];
    assert!(
        TlvWriter::new(&mut buffer)
            .push(SignedTlv::KIND, |to| too_big.emit(to))
            .is_err()
    );
}

proptest! {
    #[test]
    fn round_trip(suite in prop::sample::select(&Suite::ALL[..]), compact: bool, contributions in prop::collection::vec(any::<i64>(), 0..17)) {
        let form = match (compact, suite) {
            (false, _) => EntryForm::Full,
            (true, Suite::BlsOnce) => EntryForm::CompactWithPort,
            (true, _) => EntryForm::Compact,
        };
        let entries: Vec<_> =
            contributions.iter().enumerate().map(|(n, value)| entry(form, n as u64, *value)).collect();
        let mut buffer = [0; 1500];
        let tlvs = build(suite, form, &entries, &mut buffer);
        let tlv = tlvs.iter().next().unwrap();
        let read = SignedTlv::parse(tlv, ORGANIZATION).unwrap().unwrap();
        prop_assert_eq!(read.head, head(suite, form));
        prop_assert_eq!(read.entries().map(|(entry, _)| entry).collect::<Vec<_>>(), entries);
        prop_assert_eq!(read.signature().len(), suite.signature_length());
        let expected = if suite.is_aggregate() { 0 } else { 64 };
        prop_assert!(read.entries().all(|(_, signature)| signature.len() == expected));
        prop_assert!(SignedTlv::parse(tlv, [1, 2, 3]).is_none());

        // Two octets more or less are rejected: the TLV would contain unsigned octets.
        for length in [tlv.value.len() - 2, tlv.value.len() + 2] {
            let mut value = tlv.value.to_vec();
            value.resize(length, 0);
            let changed = timeloom_wire::tlv::Tlv { kind: tlv.kind, value: &value };
            prop_assert_eq!(SignedTlv::parse(changed, ORGANIZATION), Some(Err(ParseError::TlvValue)));
        }
    }
}
