//! The plan's field devices, served at their addresses in the experiment's
//! network.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use timeloom_fabric::Fabric;
use timeloom_plant::Exchange;
use timeloom_plant::modbus::{
    DeviceSpec, ModbusDevice, Point, RegisterMap, RegisterWrite, Trouble,
};
use timeloom_results::DeviceWrite;
use timeloom_scenario::{Addresses, Device, Plan, Register};

use crate::error::RunError;
use crate::record::RunRecorder;

/// Starts all devices.
pub(crate) fn start(
    plan: &Plan,
    writers: &Writers,
    fabric: &Fabric,
    plants: &BTreeMap<String, Arc<Exchange>>,
    run_recorder: &RunRecorder,
) -> Result<Vec<ModbusDevice>, RunError> {
    plan.system
        .devices
        .iter()
        .map(|(name, device)| start_one(writers, (name, device), fabric, plants, run_recorder))
        .collect()
}

fn start_one(
    writers: &Writers,
    (name, device): (&str, &Device),
    fabric: &Fabric,
    plants: &BTreeMap<String, Arc<Exchange>>,
    run_recorder: &RunRecorder,
) -> Result<ModbusDevice, RunError> {
    let wrong = |why: &dyn Display| RunError::Plan(format!("device `{name}`: {why}"));
    let plant = single_plant(device).map_err(|unbound| wrong(&unbound))?;
    let exchange = plants
        .get(plant)
        .ok_or_else(|| wrong(&format_args!("there is no plant `{plant}`")))?;
    let points: Vec<Point> = device.registers.iter().flat_map(points).collect();
    let map = RegisterMap::new(points, exchange.info()).map_err(|error| wrong(&error))?;

    let station = fabric
        .station(name)
        .expect("every device of a checked plan is a station");
    let address = SocketAddr::from((listening(device.address), device.port));
    let listener = station.tcp_listener(address).map_err(|error| {
        RunError::Start(format!(
            "device `{name}` cannot listen at {address}: {error}"
        ))
    })?;
    let spec = DeviceSpec {
        name: name.to_owned(),
        unit_id: device.unit,
        max_connections: MOST_CONNECTIONS,
    };
    let writers = writers.clone();
    let told = run_recorder.clone();
    let on_trouble = move |device: &str, trouble: Trouble| {
        let (text, ends) = (trouble.to_string(), trouble.ends_the_run());
        told.trouble(device, trouble.at(), &text, ends);
    };
    let on_write = {
        let (run_recorder, plant) = (run_recorder.clone(), plant.to_owned());
        move |device: &str, written: &RegisterWrite| {
            let address = written.client.ip().to_canonical();
            let client = writers.get(&address);
            let (host, writer) = client.cloned().unwrap_or_else(|| {
                let stranger = "an unknown address".to_owned();
                (stranger.clone(), stranger)
            });
            let told = DeviceWrite {
                signal: format!("{plant}.{}", written.signal),
                old: Some(written.old),
                new: written.new,
                register: format!("{} {}", written.table.name(), written.at),
                writer,
                from: address.to_string(),
            };
            run_recorder.event(&host, device, DeviceWrite::KIND, &told.to_string());
        }
    };
    let exchange = Arc::clone(exchange);
    ModbusDevice::start(spec, listener, map, exchange, on_trouble, on_write)
        .map_err(|error| RunError::Start(format!("device `{name}`: {error}")))
}

/// Returns the address at which a device listens: its only address, or the unspecified IPv6 address
/// if the device has one address of each family. In the second case an IPv4 peer appears with an
/// IPv4-mapped IPv6 address.
fn listening(own: Addresses) -> IpAddr {
    match (own.v4, own.v6) {
        (Some(own), None) => own.address.into(),
        (None, Some(own)) => own.address.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Host name and description of the programs that write to devices, by IP address.
pub(crate) type Writers = BTreeMap<IpAddr, (String, String)>;

/// Returns the owner of each IP address in the plan: the host's name, and `host/program` as the
/// description if the host has a single program.
pub(crate) fn writers(plan: &Plan) -> Writers {
    let of_host = |(name, host): (&String, &timeloom_scenario::Host)| {
        let programs: Vec<&str> = (plan.programs())
            .filter(|(other, _)| other == name)
            .map(|(_, program)| program.name.as_str())
            .collect();
        let writer = match programs[..] {
            [program] if program != name => format!("{name}/{program}"),
            _ => name.clone(),
        };
        let name = name.clone();
        let all = host.address.each();
        all.map(move |address| (address, (name.clone(), writer.clone())))
    };
    plan.system.hosts.iter().flat_map(of_host).collect()
}

/// Reason why a device cannot be assigned to exactly one plant.
#[derive(Debug, thiserror::Error)]
enum Unbound {
    #[error("it has no registers")]
    NoRegisters,
    #[error("its registers are bound to two plants, `{0}` and `{1}`; make it two devices")]
    Two(String, String),
}

/// Returns the only plant to which a device's registers are bound. A device may read and write only
/// one plant, because one request is one exchange with a plant.
fn single_plant(device: &Device) -> Result<&str, Unbound> {
    let mut plants: Vec<&str> = device
        .registers
        .iter()
        .map(|register| register.signal.plant.as_str())
        .collect();
    plants.dedup();
    match plants[..] {
        [] => Err(Unbound::NoRegisters),
        [plant] => Ok(plant),
        [one, other, ..] => Err(Unbound::Two(one.to_owned(), other.to_owned())),
    }
}

/// Returns the points of a register entry. One entry may define several consecutive points of the
/// same kind.
fn points(register: &Register) -> Vec<Point> {
    (0..register.count)
        .map(|index| Point {
            table: register.table,
            at: register.at + index * register.kind.width(),
            encoding: register.kind,
            signal: register.signal.signal.clone(),
            scale: register.scale,
            offset: register.offset,
        })
        .collect()
}

/// Maximum number of connections per device. A real field device rarely serves more, and the limit
/// stops a flood of connections.
const MOST_CONNECTIONS: u64 = 64;
