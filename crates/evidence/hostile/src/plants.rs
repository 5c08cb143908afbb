//! Plants and their clients: a plant's lines, a Modbus client's frames.

/// A line of a plant, as the reply to each request.
pub(crate) fn reply(line: &[u8]) {
    if let Ok(line) = core::str::from_utf8(line) {
        timeloom_plant::fuzzing::reply(line);
    }
}

/// Bytes from a client of a Modbus device, in one piece.
pub(crate) fn modbus(stream: &[u8]) {
    timeloom_plant::fuzzing::modbus(stream);
}
