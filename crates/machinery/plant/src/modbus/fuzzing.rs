//! Checks of a client's bytes on their way to the plant: frames, requests, and the registers that
//! they address. Used by [`crate::fuzzing`].

use tokio_modbus::{Request, bytes::Bytes};

use super::encoding::Encoding;
use super::frame::{HEADER, judge, length};
use super::map::{RegisterMap, RegisterPoint, Table};
use crate::message::PlantInfo;

/// Implements [`crate::fuzzing::modbus`].
pub(crate) fn frames(mut stream: &[u8], plant: &PlantInfo) {
    let map = map_of(plant);
    while let Ok(Some(length_bytes)) = length(stream) {
        let Some((frame, rest)) = stream.split_at_checked(length_bytes) else {
            return;
        };
        stream = rest;
        let function = frame[HEADER];
        let mut frame = frame.to_vec();
        let Ok(verdict) = judge(&mut frame) else {
            return;
        };
        assert_eq!(length(&frame).ok().flatten(), Some(frame.len()));
        let request = Request::try_from(Bytes::from(frame[HEADER..].to_vec()));
        let request = request.expect("what passes is understood");
        assert_eq!(request.function_code().value(), function);
        if verdict.is_none() {
            covers(&map, &request);
        }
    }
}

/// Returns a map with registers at both ends of the address space, one of which is two words wide.
fn map_of(plant: &PlantInfo) -> RegisterMap {
    let point = |table, at, encoding, signal: &str| RegisterPoint {
        table,
        at,
        encoding,
        signal: signal.to_owned(),
        scale: 10.0,
        offset: -1.0,
    };
    let points = [
        point(Table::Input, 0, Encoding::F32, "v"),
        point(Table::Holding, 2, Encoding::F64, "w"),
        point(Table::Holding, 65_535, Encoding::I16, "w"),
        point(Table::Coil, 7, Encoding::Bit, "w"),
        point(Table::Discrete, 65_535, Encoding::Bit, "v"),
    ];
    RegisterMap::new(points, plant).expect("a sound map")
}

/// Checks that a request reads only whole values of existing registers. The values that it writes
/// must decode as numbers, each of which either encodes again or is rejected.
fn covers(map: &RegisterMap, request: &Request<'_>) {
    let read = |table, at, count: u16| {
        if let Ok(points) = map.cover(table, at, count) {
            let wide: u16 = points.iter().map(|point| point.encoding.width()).sum();
            assert_eq!(wide, count);
        }
    };
    let write = |table, at, words: &[u16]| {
        let count = u16::try_from(words.len()).expect("a frame is short");
        let Ok(points) = map.cover_writable(table, at, count) else {
            return;
        };
        let mut rest = words;
        for point in points {
            let (own, after) = rest.split_at(usize::from(point.encoding.width()));
            rest = after;
            let value = point.to_signal(point.encoding.parse(own));
            let mut again = Vec::new();
            let _ = point.encoding.append(point.to_wire(value), &mut again);
        }
        assert!(rest.is_empty());
    };
    match request {
        Request::ReadCoils(at, count) => read(Table::Coil, *at, *count),
        Request::ReadDiscreteInputs(at, count) => read(Table::Discrete, *at, *count),
        Request::ReadHoldingRegisters(at, count) => read(Table::Holding, *at, *count),
        Request::ReadInputRegisters(at, count) => read(Table::Input, *at, *count),
        Request::WriteSingleRegister(at, word) => write(Table::Holding, *at, &[*word]),
        Request::WriteMultipleRegisters(at, words) => write(Table::Holding, *at, words),
        Request::ReadWriteMultipleRegisters(read_at, count, at, words) => {
            write(Table::Holding, *at, words);
            read(Table::Holding, *read_at, *count);
        }
        _ => {}
    }
}
