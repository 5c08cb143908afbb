//! Entry points for `timeloom-hostile` and for the fuzzers in `fuzz/`, which use that crate. They
//! handle datagrams of the pause bus from a sender without the key, and arbitrary content from a
//! host that has the key. Not for other callers.

use timeloom_agreement::{
    Datagram, HostId, HostOrder, Hosts, LeadMode, Member, MemberAction, OnSilence, Settings,
    TimelineReading,
};
use timeloom_time::{Dilation, Duration, Instant};

use crate::agreed::{BusKey, Unopened};

/// Passes bytes without a valid seal to one end of the line.
///
/// # Panics
/// Panics if the bytes are accepted as sealed, or if their content changes when it is sealed and
/// opened.
pub fn unsealed(bytes: &[u8]) {
    let key = BusKey::new(&[7; 32]);
    assert!(key.open(bytes).is_err(), "no input is sealed with the key");
    let Some(datagram) = Datagram::from_bytes(bytes) else {
        return;
    };
    assert_eq!(datagram.to_bytes(), bytes);
    let sealed = key.seal(&datagram);
    assert_eq!(key.open(&sealed), Ok(datagram));
    let other = BusKey::new(&[8; 32]);
    assert_eq!(other.open(&sealed), Err(Unopened::OtherKey));
}

/// Runs one host of three while others that have the key send arbitrary content. Each item of
/// `said` has a delay in milliseconds, a local event, and the bytes of a datagram.
///
/// # Panics
/// Panics if the host does not terminate, sends a datagram that cannot be decoded, commands a clock
/// after stopping it permanently, grants a hold that was not claimed, or accepts a dilation without
/// a hold.
pub fn member<'a>(release: bool, said: impl Iterator<Item = (u8, u8, &'a [u8])>) {
    let settings = Settings {
        on_silence: match release {
            true => OnSilence::Release,
            false => OnSilence::Stop,
        },
        mode: LeadMode::Immediate,
        to_all: false,
        ..Settings::default()
    };
    let [me, b, c] = [0, 1, 2].map(|number| HostId::new(number).expect("a small number"));
    let mut moment = TimelineReading {
        now: Instant::from_ns(1_000_000_000),
        uncertainty: Duration::from_us(10),
    };
    let all = Hosts::NONE.with(b).with(c);
    let mut member = Member::new(me, all, Hosts::NONE, settings, moment);
    let (mut claims, mut granted, mut halted) = (false, false, false);
    for (ms, happens, bytes) in said {
        moment.now += Duration::from_ms(ms.into());
        match happens % 9 {
            1 => {
                claims = true;
                member.claim(moment);
            }
            2 => {
                (claims, granted) = (false, false);
                member.release(moment);
            }
            3 => member.closed(Instant::from_ns(5), moment),
            4 => member.stood(moment),
            5 => member.wake(moment),
            6 => member.drives(true),
            7 => member.failed(moment),
            8 => {
                let dilation = Dilation::new(3.0).expect("within the bounds");
                assert!(granted || !member.dilate(dilation), "it has no hold");
            }
            _ => {}
        }
        if let Some(datagram) = Datagram::from_bytes(bytes) {
            member.receive(&datagram, moment);
        }
        let mut actions = 0;
        while let Some(action) = member.next_action() {
            actions += 1;
            assert!(actions < 100, "it says and does ever more");
            match action {
                MemberAction::Send(datagram) => {
                    let again = Datagram::from_bytes(&datagram.to_bytes());
                    assert_eq!(again, Some(datagram), "it does not decode to the same");
                }
                MemberAction::Order(order) => {
                    assert!(!halted, "{order:?} after the end");
                    halted = matches!(order, HostOrder::Halt(_));
                    let grants = matches!(order, HostOrder::Grant { .. });
                    assert!(claims || !grants);
                    granted |= grants;
                }
            }
        }
        let _ = (member.next_wake(), member.lead(moment), member.members());
    }
}
