//! Checks of field devices: the addresses and signals of their registers.

use timeloom_plant::modbus::Encoding;

use super::{Rules, at};
use crate::plan::{Device, Register};

/// Number of addresses in a Modbus table.
const TABLE_SIZE: u32 = 1 << 16;

pub(super) fn check(rules: &mut Rules<'_>) {
    for (name, device) in &rules.plan.system.devices {
        let path = at(&[], ["system", "devices", name]);
        if device.port == 0 {
            rules.broken(&at(&path, ["port"]), "a port must lie in 1 … 65535", "");
        }
        for (index, register) in device.registers.iter().enumerate() {
            let path = at(&path, ["registers", &index.to_string()]);
            single(rules, register, &path);
        }
        overlaps(rules, device, &path);
    }
}

fn single(rules: &mut Rules<'_>, register: &Register, path: &[String]) {
    if rules.part_was_read(path, "table") {
        match (register.table.is_bits(), register.kind == Encoding::Bit) {
            (true, false) => rules.broken(
                &at(path, ["type"]),
                "a coil or discrete input holds single bits",
                "leave `type` out, or use the table `holding` or `input`",
            ),
            (false, true) => rules.broken(
                &at(path, ["type"]),
                "a register needs a `type` of its numbers",
                "one of `i16`, `u16`, `i32`, `u32`, `f32` and `f64`; bits live in the tables `coil` and `discrete`",
            ),
            _ => {}
        }
    }
    if register.count == 0 {
        rules.broken(&at(path, ["count"]), "`count` must be at least 1", "");
    }
    if register.scale == 0.0 {
        let help = "a written value could not be converted back into the signal";
        rules.broken(&at(path, ["scale"]), "`scale` must not be 0", help);
    }
    let end = u32::from(register.at) + register.width();
    if end > TABLE_SIZE {
        let message = format!(
            "{} places from {} on go beyond the last address, 65535",
            register.width(),
            register.at
        );
        rules.broken(&at(path, ["at"]), message, "");
    }
    let plants = &rules.plan.simulation.plants;
    if !rules.may_exist(&["simulation", "plants", &register.signal.plant]) {
        let plant = &register.signal.plant;
        let help = rules.hint(plant, "plant", plants.keys().map(String::as_str));
        rules.broken(
            &at(path, ["signal"]),
            format!("there is no plant `{plant}`"),
            help,
        );
    }
}

fn overlaps(rules: &mut Rules<'_>, device: &Device, path: &[String]) {
    let mut places: Vec<(usize, &Register)> = device
        .registers
        .iter()
        .enumerate()
        .filter(|(index, _)| {
            let path = at(path, ["registers", &index.to_string()]);
            ["table", "at", "type", "count"]
                .iter()
                .all(|part| rules.part_was_read(&path, part))
        })
        .collect();
    places.sort_by_key(|(index, register)| (register.table, register.at, *index));
    // A register is compared with the one that extends furthest, not only with its predecessor,
    // because a long vector may cover several registers.
    let mut furthest: Option<&Register> = None;
    for (index, register) in places {
        let end = |register: &Register| u32::from(register.at) + register.width();
        match furthest {
            Some(other) if other.table == register.table && end(other) > u32::from(register.at) => {
                let message = format!(
                    "overlaps with `{}`, which occupies {} … {}",
                    other.signal,
                    other.at,
                    end(other) - 1
                );
                let help = format!("the next free address is {}", end(other));
                rules.broken(
                    &at(path, ["registers", &index.to_string(), "at"]),
                    message,
                    help,
                );
                if end(register) > end(other) {
                    furthest = Some(register);
                }
            }
            _ => furthest = Some(register),
        }
    }
}
