//! Entry points for `timeloom-hostile` and the fuzzers in `fuzz/`: parsers of plants' lines and of
//! Modbus clients' frames, with their invariants. Not a public API.

use serde_json::Value;
use timeloom_time::{Duration, Instant};

use crate::message::{self, PlantInfo, PlantInit, Signal};
use crate::modbus::fuzzing;

/// Parses a plant's line as the reply to each request. An accepted reply must match the request.
///
/// # Panics
/// Panics if it does not.
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

/// Parses the bytes that a client sends to a Modbus device of one plant, up to the first malformed
/// frame.
///
/// # Panics
/// Panics if an accepted frame is not understood by the library as a request of its function, or if
/// nonexistent registers are covered.
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
