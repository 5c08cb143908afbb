//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`. They pass untrusted bytes to the
//! parsers of plants' lines and of Modbus clients' frames, and check invariants. Not a public API.

use serde_json::Value;
use timeloom_time::{Duration, Instant};

use crate::message::{self, PlantInfo, PlantInit, Signal};
use crate::modbus::fuzzing;

/// Parses a line of a plant as the reply to each kind of request. A reply that is accepted must
/// match the request.
///
/// # Panics
/// Panics if an accepted reply does not match.
pub fn reply(line: &str) {
    let Ok(ok) = message::reply(line, 1) else {
        return;
    };
    let init = PlantInit {
        seed: 1,
        t: Instant::ZERO,
        config: Value::Null,
        record: vec!["v".to_owned()],
        record_every: Duration::from_ms(1),
        step: Duration::from_ms(1),
    };
    if let Ok(info) = message::info(&ok, &init) {
        assert!(info.signal("v").is_some());
    }
    let (from, to) = (Instant::from_ns(10), Instant::from_ns(1_000));
    if let Ok(advance) = message::advance(&ok, from, to, 1) {
        assert_eq!(advance.t, to);
        assert!(advance.solve >= Duration::ZERO);
        assert!(advance.samples.is_sorted_by_key(|row| row.t));
        let inside = |row: &message::SampleRow| from <= row.t && row.t <= to;
        assert!(advance.samples.iter().all(inside));
        let finite = |row: &message::SampleRow| row.values.len() == 1 && row.values[0].is_finite();
        assert!(advance.samples.iter().all(finite));
    }
    for count in 0..4 {
        if let Ok(values) = message::values(&ok, count) {
            assert_eq!(values.len(), count);
            assert!(values.iter().all(|value| value.is_finite()));
        }
    }
}

/// Parses bytes that a client sends to a Modbus device, up to the first malformed frame.
///
/// # Panics
/// Panics if the library does not take an accepted frame as a request of the same function, or if a
/// request is accepted for registers that do not exist.
pub fn modbus(stream: &[u8]) {
    let signal = |name: &str, writable| Signal {
        name: name.into(),
        unit: "V".into(),
        writable,
    };
    let plant = PlantInfo {
        name: "fuzzed".into(),
        signals: vec![signal("v", false), signal("w", true)],
    };
    fuzzing::frames(stream, &plant);
}
