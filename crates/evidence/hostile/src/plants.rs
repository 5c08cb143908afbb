//! Untrusted input of plants: lines of a plant, and frames of a Modbus client.

/// Tests a line of a plant, as the reply to each kind of request.
pub(crate) fn reply(line: &[u8]) {
    if let Ok(line) = core::str::from_utf8(line) {
        timeloom_plant::fuzzing::reply(line);
    }
}

/// Tests bytes that a client sends to a Modbus device, in one piece.
pub(crate) fn modbus(stream: &[u8]) {
    timeloom_plant::fuzzing::modbus(stream);
}
