//! Mapping of signals to register addresses.

use std::collections::BTreeMap;

use tokio_modbus::ExceptionCode;

use super::encoding::Encoding;
use crate::message::PlantInfo;

/// Table of a Modbus device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[cfg_attr(feature = "schemars", schemars(rename = "RegisterTable"))]
pub enum Table {
    /// Registers of 16 bits that clients can only read (function code 4).
    #[default]
    Input,
    /// Registers of 16 bits that clients can read and write (function codes 3, 6, 16).
    Holding,
    /// Bits that clients can read and write (function codes 1, 5, 15).
    Coil,
    /// Bits that clients can only read (function code 2).
    Discrete,
}

impl Table {
    /// Returns the word that stands for the table in scenarios and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Holding => "holding",
            Self::Coil => "coil",
            Self::Discrete => "discrete",
        }
    }

    /// Returns true if the table has bits, false if it has registers.
    pub const fn is_bits(self) -> bool {
        matches!(self, Self::Coil | Self::Discrete)
    }
}

/// Signal at an address. The value on the wire is `signal * scale + offset`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterPoint {
    /// Address space of the point.
    pub table: Table,
    /// First address, counted from 0 as in the protocol.
    pub at: u16,
    /// Encoding of the value. A bit is set if the value is 0.5 or more.
    pub encoding: Encoding,
    /// Name of the plant's signal.
    pub signal: String,
    /// Units on the wire per unit of the signal; finite and not 0.
    pub scale: f64,
    /// Value on the wire if the signal is 0; finite.
    pub offset: f64,
}

impl RegisterPoint {
    pub(crate) fn to_wire(&self, value: f64) -> f64 {
        value * self.scale + self.offset
    }

    pub(crate) fn to_signal(&self, wire: f64) -> f64 {
        (wire - self.offset) / self.scale
    }
}

/// Error of a list of points that does not form a register map.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("register {} {} for `{}`: {reason}", point.table.name(), point.at, point.signal)]
pub struct MapError {
    /// Point that is invalid.
    pub point: RegisterPoint,
    /// Reason why the point is invalid.
    pub reason: String,
}

/// Points of a device, validated against its plant.
#[derive(Clone, Debug)]
pub struct RegisterMap {
    points: BTreeMap<(Table, u16), (RegisterPoint, bool)>,
}

impl RegisterMap {
    /// Creates a map. Checks that every signal exists, that no two points of a table overlap, and
    /// that bits are in the tables of bits, and only there.
    ///
    /// # Errors
    /// Returns the first invalid point and the reason.
    pub fn new(
        points: impl IntoIterator<Item = RegisterPoint>,
        plant: &PlantInfo,
    ) -> Result<Self, MapError> {
        let mut map = Self {
            points: BTreeMap::new(),
        };
        for point in points {
            match map.fault(&point, plant) {
                None => {
                    let writable = plant.signal(&point.signal).is_some_and(|it| it.writable);
                    map.points
                        .insert((point.table, point.at), (point, writable));
                }
                Some(reason) => return Err(MapError { point, reason }),
            }
        }
        Ok(map)
    }

    fn fault(&self, point: &RegisterPoint, plant: &PlantInfo) -> Option<String> {
        let (from, past) = span(point);
        let bits = matches!(point.table, Table::Coil | Table::Discrete);
        if plant.signal(&point.signal).is_none() {
            return Some(format!("the plant has no signal `{}`", point.signal));
        }
        if bits != (point.encoding == Encoding::Bit) {
            return Some("coils and discrete inputs hold bits, registers hold numbers".to_owned());
        }
        if point.scale == 0.0 || !point.scale.is_finite() || !point.offset.is_finite() {
            return Some("scale must be finite and not 0, offset finite".to_owned());
        }
        if past > 1 << 16 {
            return Some("it reaches beyond address 65535".to_owned());
        }
        let other = self.points.values().map(|(other, _)| other).find(|other| {
            let (other_from, other_past) = span(other);
            other.table == point.table && from < other_past && other_from < past
        })?;
        Some(format!(
            "it overlaps `{}` at {} {}",
            other.signal,
            other.table.name(),
            other.at
        ))
    }

    /// Returns the points that fill the `count` addresses from `at` exactly.
    pub(crate) fn cover(
        &self,
        table: Table,
        at: u16,
        count: u16,
    ) -> Result<Vec<&RegisterPoint>, ExceptionCode> {
        self.walk(table, at, count, false)
    }

    /// Returns the points that fill the `count` addresses from `at` exactly. All of them must be
    /// writable.
    pub(crate) fn cover_writable(
        &self,
        table: Table,
        at: u16,
        count: u16,
    ) -> Result<Vec<&RegisterPoint>, ExceptionCode> {
        self.walk(table, at, count, true)
    }

    fn walk(
        &self,
        table: Table,
        at: u16,
        count: u16,
        write: bool,
    ) -> Result<Vec<&RegisterPoint>, ExceptionCode> {
        let past = u32::from(at) + u32::from(count);
        let mut next = u32::from(at);
        let mut covered = Vec::new();
        while next < past {
            let key = u16::try_from(next).map_err(|_| ExceptionCode::IllegalDataAddress)?;
            match self.points.get(&(table, key)) {
                Some((point, writable)) if *writable || !write => {
                    covered.push(point);
                    next += u32::from(point.encoding.width());
                }
                _ => return Err(ExceptionCode::IllegalDataAddress),
            }
        }
        if next > past {
            Err(ExceptionCode::IllegalDataAddress)
        } else {
            Ok(covered)
        }
    }
}

/// Returns the first address of a point, and the address after its last one.
fn span(point: &RegisterPoint) -> (u32, u32) {
    let from = u32::from(point.at);
    (from, from + u32::from(point.encoding.width()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Signal;

    fn point(table: Table, at: u16, encoding: Encoding, signal: &str) -> RegisterPoint {
        RegisterPoint {
            table,
            at,
            encoding,
            signal: signal.to_owned(),
            scale: 1.0,
            offset: 0.0,
        }
    }

    fn plant() -> PlantInfo {
        let signal = |name: &str, writable| Signal {
            name: name.into(),
            unit: "V".into(),
            writable,
        };
        PlantInfo {
            name: "test".into(),
            signals: vec![signal("v", false), signal("kw", true)],
        }
    }

    #[test]
    fn requests_cover_whole_values_only() {
        let map = RegisterMap::new(
            [
                point(Table::Holding, 10, Encoding::F32, "v"),
                point(Table::Holding, 12, Encoding::I16, "kw"),
                point(Table::Holding, 65534, Encoding::U32, "kw"),
            ],
            &plant(),
        )
        .unwrap();
        let read = |at, count| {
            map.cover(Table::Holding, at, count)
                .map(|points| points.len())
        };
        let illegal = Err(ExceptionCode::IllegalDataAddress);
        assert_eq!(read(10, 3), Ok(2));
        assert_eq!(read(65534, 2), Ok(1));
        for (at, count) in [
            (10, 1),
            (11, 1),
            (11, 2),
            (9, 2),
            (12, 2),
            (65535, 1),
            (65534, 3),
        ] {
            assert_eq!(read(at, count), illegal, "{at}+{count}");
        }
        assert_eq!(map.cover(Table::Input, 10, 2).map(drop), illegal.map(drop));
        assert!(map.cover_writable(Table::Holding, 12, 1).is_ok());
        assert!(
            map.cover_writable(Table::Holding, 10, 3).is_err(),
            "`v` is read-only"
        );
    }

    #[test]
    fn a_wrong_map_is_refused_with_the_reason() {
        for (points, reason) in [
            (
                vec![point(Table::Input, 0, Encoding::I16, "x")],
                "no signal",
            ),
            (vec![point(Table::Input, 0, Encoding::Bit, "v")], "bits"),
            (vec![point(Table::Coil, 0, Encoding::U16, "kw")], "bits"),
            (
                vec![point(Table::Input, 65535, Encoding::F32, "v")],
                "beyond",
            ),
            (
                vec![RegisterPoint {
                    scale: 0.0,
                    ..point(Table::Input, 0, Encoding::I16, "v")
                }],
                "scale",
            ),
            (
                vec![
                    point(Table::Input, 1, Encoding::F32, "v"),
                    point(Table::Input, 0, Encoding::F64, "v"),
                ],
                "overlaps `v` at input 1",
            ),
        ] {
            let error = RegisterMap::new(points, &plant()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
