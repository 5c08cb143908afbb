//! Disables Open vSwitch's inactivity probes of controllers.
//!
//! A controller that is paused with the testbed is not dead, so bridges are configured not to probe
//! it (`inactivity_probe = 0`). Open vSwitch 3.1 does not apply this setting to connections that
//! are made later, which is all of them: it probes after five seconds and disconnects after ten. It
//! does apply a change of the setting to existing connections. So a thread watches the database
//! (RFC 7047) for new connections, and alternates the setting between two values that never expire.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{Builder, JoinHandle};

use serde_json::{Deserializer, Value, json};

/// Starts the thread. The thread ends with the database server that listens at `socket`.
pub(super) fn keep(socket: &Path) -> io::Result<JoinHandle<()>> {
    let mut to_server = UnixStream::connect(socket)?;
    let from_server = BufReader::new(to_server.try_clone()?);
    let columns = json!({"Controller": {"columns": ["is_connected", "status"]}});
    let monitor = json!({"method": "monitor", "params": ["Open_vSwitch", null, columns], "id": 0});
    write!(to_server, "{monitor}")?;
    let watch = move || {
        let mut connections = Connections::default();
        for message in Deserializer::from_reader(from_server).into_iter() {
            let answer = message.ok().map(|message| connections.hear(&message));
            // The server has ended, or has sent a message that is not JSON.
            let Some(answer) = answer else { return };
            if let Some(answer) = answer
                && write!(to_server, "{answer}").is_err()
            {
                return;
            }
        }
    };
    Builder::new().name("ovs patience".to_owned()).spawn(watch)
}

/// State of the connections between bridges and controllers.
#[derive(Default)]
struct Connections {
    /// Duration of each connection in seconds as last reported, by the row in the database.
    lasted_s: HashMap<String, u64>,
    turns: u64,
}

impl Connections {
    /// Processes a message of the server; returns the request to send, if one is needed.
    fn hear(&mut self, message: &Value) -> Option<Value> {
        let rows = match message["method"].as_str() {
            Some("echo") => {
                let (id, said) = (&message["id"], &message["params"]);
                return Some(json!({"id": id, "result": said, "error": null}));
            }
            Some("update") => &message["params"][1]["Controller"],
            // The answer to the first request contains the complete state.
            _ => &message["result"]["Controller"],
        };
        let mut is_new = false;
        for (row, change) in rows.as_object()? {
            is_new |= self.is_new(row, &change["new"]);
        }
        is_new.then(|| self.setting())
    }

    /// Returns true if a bridge has connected since the last report.
    fn is_new(&mut self, row: &str, now: &Value) -> bool {
        if now["is_connected"] != true {
            self.lasted_s.remove(row);
            return false;
        }
        let lasts_s = status(now, "sec_since_connect").unwrap_or(0);
        let before = self.lasted_s.insert(row.to_owned(), lasts_s);
        before.is_none_or(|before| lasts_s < before)
    }

    fn setting(&mut self) -> Value {
        self.turns += 1;
        let probe_ms = if self.turns % 2 == 1 { NEVER_MS } else { 0 };
        let row = json!({"inactivity_probe": probe_ms});
        let update = json!({"op": "update", "table": "Controller", "where": [], "row": row});
        json!({"method": "transact", "params": ["Open_vSwitch", update], "id": self.turns})
    }
}

/// Returns a number from the `status` of a row, which has the form `["map", [[name, text], …]]`.
fn status(row: &Value, name: &str) -> Option<u64> {
    let pairs = row["status"][1].as_array()?;
    let pair = pairs.iter().find(|pair| pair[0] == name)?;
    pair[1].as_str()?.parse().ok()
}

/// Probe interval that never expires: three weeks.
const NEVER_MS: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn update(row: &str, connected: bool, since: &str) -> Value {
        let status = json!(["map", [["sec_since_connect", since], ["state", "ACTIVE"]]]);
        let new = json!({"is_connected": connected, "status": status});
        json!({"method": "update", "params": [null, {"Controller": {row: {"new": new}}}]})
    }

    #[test]
    fn the_setting_changes_with_each_new_connection_and_with_nothing_else() {
        let mut connections = Connections::default();
        let mut probes = |message: &Value| {
            let told = connections.hear(message)?;
            told["params"][1]["row"]["inactivity_probe"].as_u64()
        };
        assert_eq!(probes(&update("a", false, "3")), None);
        assert_eq!(probes(&update("a", true, "1")), Some(NEVER_MS));
        assert_eq!(probes(&update("a", true, "6")), None);
        assert_eq!(probes(&update("b", true, "0")), Some(0));
        // The connection was closed and opened again between two messages of the server.
        assert_eq!(probes(&update("a", true, "2")), Some(NEVER_MS));
        assert_eq!(probes(&update("a", false, "2")), None);
        assert_eq!(probes(&update("a", true, "7")), Some(0));
        assert_eq!(probes(&json!({"id": 3, "result": [{"count": 2}]})), None);
    }

    #[test]
    fn a_server_that_asks_is_answered() {
        let asked = json!({"method": "echo", "params": ["x"], "id": "echo"});
        let answer = Connections::default().hear(&asked).expect("an answer");
        assert_eq!(
            (&answer["id"], &answer["result"]),
            (&json!("echo"), &json!(["x"]))
        );
    }
}
