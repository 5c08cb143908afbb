//! Codec of the protocol `timeloom-plant/1`: encodes requests and parses replies.
//!
//! A line contains one JSON object. Instants are nanoseconds of virtual time since the start of the
//! run. This module does no I/O. The protocol is specified in docs/plant-protocol.md.

use serde_json::{Map, Value, json};
use timeloom_time::{Duration, Instant, Virtual};

/// Name and version of the protocol, as sent in `init`.
pub(crate) const PROTOCOL: &str = "timeloom-plant/1";

/// Parameters sent to a plant at its start.
#[derive(Clone, Debug)]
pub struct PlantInit {
    /// Seed for all randomness in the plant; at most 2^63 - 1.
    pub seed: u64,
    /// Virtual instant at which the plant starts.
    pub t: Instant<Virtual>,
    /// Settings of the plant, which are passed on unchanged.
    pub config: Value,
    /// Names of the signals that the plant samples during an advance.
    pub record: Vec<String>,
    /// Virtual time between two samples.
    pub record_every: Duration,
    /// Maximum virtual time that the plant should compute in one step.
    pub step: Duration,
}

/// Description that a plant gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantInfo {
    /// Name of the plant.
    pub name: String,
    /// All signals of the plant. Each can be read, and states whether it can be written.
    pub signals: Vec<Signal>,
}

impl PlantInfo {
    /// Returns the signal of this name; `None` if the plant has no such signal.
    pub fn signal(&self, name: &str) -> Option<&Signal> {
        self.signals.iter().find(|signal| signal.name == name)
    }
}

/// Quantity of a plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Name, unique within the plant.
    pub name: String,
    /// Unit, for display.
    pub unit: String,
    /// True if the signal can be written.
    pub writable: bool,
}

/// Result of an advance.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// Virtual instant to which the plant has computed.
    pub t: Instant<Virtual>,
    /// Wall time spent computing, as reported by the plant.
    pub solve: Duration,
    /// Samples recorded during the advance.
    pub samples: Vec<SampleRow>,
}

impl Advance {
    /// Appends the result of the advance that follows this one.
    pub(crate) fn append(&mut self, next: Self) {
        self.t = next.t;
        self.solve += next.solve;
        self.samples.extend(next.samples);
    }
}

/// Values of the recorded signals at one instant, in the order of [`PlantInit::record`].
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRow {
    /// Virtual instant of the sample.
    pub t: Instant<Virtual>,
    /// Values of the signals; all are finite.
    pub values: Vec<f64>,
}

/// A request without its `id`.
pub(crate) enum Request<'a> {
    Init(&'a PlantInit),
    Advance(Instant<Virtual>),
    Read(&'a [&'a str]),
    Write(&'a [(&'a str, f64)]),
    Stop,
}

impl Request<'_> {
    /// Appends the request to `lines` as one line. All values to write must be finite.
    pub(crate) fn append(&self, id: u64, lines: &mut Vec<u8>) {
        let body = match self {
            Self::Init(init) => json!({
                "id": id, "op": "init", "protocol": PROTOCOL,
                "seed": init.seed, "t_ns": init.t.as_ns(), "config": init.config,
                "record": init.record, "record_every_ns": init.record_every.as_ns(),
                "step_ns": init.step.as_ns(),
            }),
            Self::Advance(to) => json!({"id": id, "op": "advance", "to_ns": to.as_ns()}),
            Self::Read(signals) => json!({"id": id, "op": "read", "signals": signals}),
            Self::Write(values) => {
                let values: Map<String, Value> = values
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), json!(value)))
                    .collect();
                json!({"id": id, "op": "write", "values": values})
            }
            Self::Stop => json!({"id": id, "op": "stop"}),
        };
        lines.extend_from_slice(body.to_string().as_bytes());
        lines.push(b'\n');
    }
}

/// Reason why a line is not the reply of a successful request.
#[derive(Debug, PartialEq)]
pub(crate) enum BadReply {
    Nonsense(String),
    NotFinite,
    /// The line is a valid reply that refuses the request.
    Refused {
        message: String,
        signal: Option<String>,
        /// Virtual instant at which the failure occurred, if the plant reports one.
        at: Option<Instant<Virtual>>,
    },
}

fn nonsense<T>(what: impl Into<String>) -> Result<T, BadReply> {
    Err(BadReply::Nonsense(what.into()))
}

/// Parses the reply to the request numbered `id`, and returns the reply's member `ok`.
pub(crate) fn reply(line: &str, id: u64) -> Result<Value, BadReply> {
    let mut reply: Value = match serde_json::from_str(line) {
        Ok(reply) => reply,
        // Python and other languages write these words, which are not valid JSON. A literal such as
        // 1e999 is valid, but exceeds the range of a double.
        Err(error) if ["NaN", "Infinity"].iter().any(|word| line.contains(word)) => {
            let _ = error;
            return Err(BadReply::NotFinite);
        }
        Err(error) if error.to_string().starts_with("number out of range") => {
            return Err(BadReply::NotFinite);
        }
        Err(error) => return nonsense(format!("not JSON ({error})")),
    };
    match reply.get("id").and_then(Value::as_u64) {
        Some(got) if got == id => {}
        Some(got) => return nonsense(format!("the id is {got} in place of {id}")),
        None => return nonsense("it has no integer `id`"),
    }
    match (reply.get_mut("ok").map(Value::take), reply.get("error")) {
        (Some(ok @ Value::Object(_)), None) => Ok(ok),
        (None, Some(error)) => match error.get("message").and_then(Value::as_str) {
            Some(message) => Err(BadReply::Refused {
                message: message.to_owned(),
                signal: error
                    .get("signal")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                at: error
                    .get("t_ns")
                    .and_then(Value::as_i64)
                    .map(Instant::from_ns),
            }),
            None => nonsense("its error has no `message`"),
        },
        _ => nonsense("it has neither an `ok` object nor an `error`, or both"),
    }
}

/// Parses the reply to `init`. Every signal to be recorded must be one of the plant's signals.
pub(crate) fn info(ok: &Value, init: &PlantInit) -> Result<PlantInfo, BadReply> {
    let Some(name) = ok.get("name").and_then(Value::as_str) else {
        return nonsense("it has no `name`");
    };
    let Some(list) = ok.get("signals").and_then(Value::as_array) else {
        return nonsense("it has no list `signals`");
    };
    let mut info = PlantInfo {
        name: name.to_owned(),
        signals: Vec::with_capacity(list.len()),
    };
    let mut names = std::collections::BTreeSet::new();
    for signal in list {
        let text = |key| signal.get(key).and_then(Value::as_str);
        let writable = signal.get("writable").and_then(Value::as_bool);
        let (Some(name), Some(unit), Some(writable)) = (text("name"), text("unit"), writable)
        else {
            return nonsense(format!("a signal needs name, unit and writable: {signal}"));
        };
        if !names.insert(name) {
            return nonsense(format!("two signals are named `{name}`"));
        }
        info.signals.push(Signal {
            name: name.to_owned(),
            unit: unit.to_owned(),
            writable,
        });
    }
    match init
        .record
        .iter()
        .find(|name| !names.contains(name.as_str()))
    {
        Some(missing) => nonsense(format!("the plant has no signal `{missing}` to record")),
        None => Ok(info),
    }
}

/// Parses the reply to an advance from `from` to `to`, whose samples have `recorded` values each.
pub(crate) fn advance(
    ok: &Value,
    from: Instant<Virtual>,
    to: Instant<Virtual>,
    recorded: usize,
) -> Result<Advance, BadReply> {
    if ok.get("t_ns").and_then(Value::as_i64) != Some(to.as_ns()) {
        return nonsense(format!("`t_ns` should be {}", to.as_ns()));
    }
    let solve = match ok.get("solve_ns").and_then(Value::as_i64) {
        Some(solve) if solve >= 0 => Duration::from_ns(solve),
        _ => return nonsense("`solve_ns` should be a whole number, not negative"),
    };
    let empty = Vec::new();
    let rows = match ok.get("samples") {
        None => &empty,
        Some(Value::Array(rows)) => rows,
        Some(_) => return nonsense("`samples` should be a list"),
    };
    let mut samples = Vec::with_capacity(rows.len());
    let mut earliest = from;
    for row in rows {
        let t = match row
            .get("t_ns")
            .and_then(Value::as_i64)
            .map(Instant::from_ns)
        {
            Some(t) if earliest <= t && t <= to => t,
            _ => return nonsense("a sample's `t_ns` is out of order or not within the advance"),
        };
        earliest = t;
        samples.push(SampleRow {
            t,
            values: values(row, recorded)?,
        });
    }
    Ok(Advance {
        t: to,
        solve,
        samples,
    })
}

/// Parses the member `values` of a reply to `read`, or of a sample. It must have `count` values.
pub(crate) fn values(from: &Value, count: usize) -> Result<Vec<f64>, BadReply> {
    let Some(list) = from.get("values").and_then(Value::as_array) else {
        return nonsense("it has no list `values`");
    };
    if list.len() != count {
        return nonsense(format!("it has {} values in place of {count}", list.len()));
    }
    let mut values = Vec::with_capacity(count);
    for value in list {
        match value.as_f64() {
            Some(number) if number.is_finite() => values.push(number),
            Some(_) => return Err(BadReply::NotFinite),
            None => return nonsense(format!("`{value}` is not a number")),
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_line_is_a_reply_or_an_error_but_no_panic(line in "\\PC{0,200}", id in any::<u64>()) {
            let _ = reply(&line, id);
        }

        #[test]
        fn values_come_back_to_the_bit(value in any::<f64>().prop_filter("finite", |it| it.is_finite())) {
            let mut line = Vec::new();
            Request::Write(&[("a", value)]).append(1, &mut line);
            let sent: Value = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(sent["values"]["a"].as_f64().unwrap().to_bits(), value.to_bits());
        }
    }

    #[test]
    fn replies_are_told_apart() {
        let nonsense = |line: &str| matches!(reply(line, 3), Err(BadReply::Nonsense(_)));
        assert_eq!(reply(r#"{"id":3,"ok":{}}"#, 3), Ok(json!({})));
        assert!(nonsense(r#"{"id":4,"ok":{}}"#));
        assert!(nonsense(r#"{"id":"3","ok":{}}"#));
        assert!(nonsense(r#"{"ok":{}}"#));
        assert!(nonsense(r#"{"id":3}"#));
        assert!(nonsense(r#"{"id":3,"ok":{},"error":{"message":"x"}}"#));
        assert!(nonsense(r#"{"id":3,"error":"x"}"#));
        assert!(nonsense("Traceback (most recent call last):"));
        assert_eq!(
            reply(r#"{"id":3,"ok":{"values":[NaN]}}"#, 3),
            Err(BadReply::NotFinite)
        );
        assert_eq!(
            reply(r#"{"id":3,"ok":{"values":[1e999]}}"#, 3),
            Err(BadReply::NotFinite)
        );
        let refused = BadReply::Refused {
            message: "no".into(),
            signal: Some("a".into()),
            at: Some(Instant::from_ns(9)),
        };
        assert_eq!(
            reply(
                r#"{"id":3,"error":{"message":"no","signal":"a","t_ns":9}}"#,
                3
            ),
            Err(refused)
        );
    }

    #[test]
    fn samples_stay_within_the_advance() {
        let at = |t: i64| Instant::from_ns(t);
        let judge = |samples: Value| {
            advance(
                &json!({"t_ns": 10, "solve_ns": 1, "samples": samples}),
                at(5),
                at(10),
                1,
            )
        };
        let good =
            judge(json!([{"t_ns": 6, "values": [1]}, {"t_ns": 10, "values": [2.5]}])).unwrap();
        assert_eq!(
            good.samples[1],
            SampleRow {
                t: at(10),
                values: vec![2.5]
            }
        );
        for bad in [
            json!([{"t_ns": 11, "values": [1]}]),
            json!([{"t_ns": 4, "values": [1]}]),
            json!([{"t_ns": 8, "values": [1]}, {"t_ns": 7, "values": [1]}]),
            json!([{"t_ns": 8, "values": [1, 2]}]),
            json!([{"t_ns": 8, "values": [null]}]),
            json!(7),
        ] {
            assert!(judge(bad.clone()).is_err(), "{bad}");
        }
    }
}
