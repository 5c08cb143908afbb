//! Entry points for `timeloom-hostile` and for the fuzzers in `fuzz/`, which use that crate. They
//! process arbitrary datagrams and check invariants. Not for other callers.

use crate::{Stamp, Status, TimelineId};

use crate::messages::{AuthenticityError, Envelope, MessageRefusal, Seal, datagram, key};

/// Processes a datagram as a channel does, from a sender without the seal's key and from one with
/// it. The datagram's key is matched with `pattern`.
///
/// # Panics
/// Panics if a message differs after it is encoded again, or is accepted twice or without a seal.
pub fn message(pattern: &str, bytes: &[u8]) {
    let Some((name, body)) = datagram::read(bytes) else {
        return;
    };
    assert_eq!(datagram::write(name, body), bytes);
    if key::is_key(name) {
        assert!(key::matches(name, name) && key::matches("**", name));
        let _ = key::is_pattern(pattern) && key::matches(pattern, name);
    }
    let here = Seal::new(b"of the receiver's").expect("a long key");
    let stranger = Seal::new(b"of another sender").expect("a long key");
    for unsealed in [body, &stranger.seal(name, body)] {
        let refused = here.open(name, unsealed);
        assert!(refused.is_err(), "no input is sealed with this key");
    }
    let Ok(envelope) = Envelope::from_bytes(body) else {
        return;
    };
    // Reserved bytes may differ, but the decoded message must not.
    let written = envelope.to_bytes();
    assert_eq!(Envelope::from_bytes(&written), Ok(envelope));
    assert_eq!(crate::messages::open(None, name, body, None), Ok(envelope));

    let there = Seal::new(b"of the receiver's").expect("a long key");
    let sealed = crate::messages::write(Some(&there), name, &envelope);
    assert!(here.open("another name", &sealed).is_err());
    // If `since` has no interval, the first message of a sender is refused.
    let since = Stamp::void(TimelineId(0), Status::Disrupted);
    let old = crate::messages::open(Some(&here), name, &sealed, Some(&since));
    assert_eq!(old, Err(MessageRefusal::Unproved(AuthenticityError::Old)));
    assert_eq!(
        crate::messages::open(Some(&here), name, &sealed, None),
        Ok(envelope)
    );
    let again = crate::messages::open(Some(&here), name, &sealed, None);
    assert_eq!(
        again,
        Err(MessageRefusal::Unproved(AuthenticityError::Again))
    );
}
