//! Translation of requests into accesses to signals, and of values into replies.

use std::fmt;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use timeloom_bus::BusError;
use timeloom_time::{Instant, Virtual};
use tokio_modbus::server::Service as ModbusService;
use tokio_modbus::{ExceptionCode, Request, Response, SlaveRequest};

use super::encoding::Encoding;
use super::map::{Point, RegisterMap, Table};
use super::transport::Connection;

use crate::error::{Fault, Op, PlantError};
use crate::exchange::{Access, Exchange};

/// Event that a device reports to its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The plant failed, or refused to advance or read. The run should end.
    Plant(PlantError),
    /// The testbed could not be paused. The run should end.
    Bus(BusError),
    /// A value does not fit its register. The client received exception 0x04.
    DoesNotFit {
        /// Name of the signal.
        signal: String,
        /// Scaled value that would have been sent.
        wire: f64,
        /// Encoding of the register.
        encoding: Encoding,
    },
}

impl Trouble {
    /// Returns the virtual instant of the event; `None` if it is the instant of its detection.
    pub fn at(&self) -> Option<Instant<Virtual>> {
        match self {
            Self::Plant(error) => error.at,
            Self::Bus(_) | Self::DoesNotFit { .. } => None,
        }
    }

    /// Returns true if the run cannot continue after the event.
    pub fn ends_the_run(&self) -> bool {
        !matches!(self, Self::DoesNotFit { .. })
    }
}

/// Value that a client has written to a register.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterWrite {
    /// Address of the client.
    pub client: SocketAddr,
    /// Address space of the register.
    pub table: Table,
    /// First address of the value.
    pub at: u16,
    /// Name of the plant's signal.
    pub signal: String,
    /// Value of the signal before the write, in the signal's unit.
    pub old: f64,
    /// Value that was written, in the signal's unit.
    pub new: f64,
}

/// Callback for writes, with the device's name and the write. It is called after the plant has
/// accepted the write, while the testbed is paused.
pub(crate) type OnWrite = Box<dyn Fn(&str, &RegisterWrite) + Send + Sync>;

/// Callback for [`Trouble`], with the device's name and the event.
pub(crate) type OnTrouble = Box<dyn Fn(&str, Trouble) + Send + Sync>;

/// State shared by all connections of a device.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) unit_id: u8,
    pub(crate) map: RegisterMap,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) on_trouble: OnTrouble,
    pub(crate) on_write: OnWrite,
}

/// Service for the requests of one connection.
pub(crate) struct Service {
    pub(crate) device: Arc<Device>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) client: SocketAddr,
    /// Name of the device and address of the client, as they appear in records of pauses.
    pub(crate) requester: String,
}

impl ModbusService for Service {
    type Request = SlaveRequest<'static>;
    type Response = Response;
    type Exception = ExceptionCode;
    type Future = Ready<Result<Response, ExceptionCode>>;

    /// Answers synchronously, on the runtime's thread, although the plant may compute for long.
    /// That thread serves only this device, and its other work would also have to wait for the same
    /// plant while the testbed is paused. Passing the request to another thread and back would cost
    /// two wake-ups for each exchange.
    fn call(&self, request: Self::Request) -> Self::Future {
        let counters = &self.connection.counters;
        counters.requests.fetch_add(1, Relaxed);
        let answer = self.answer(request);
        if answer.is_err() {
            counters.exceptions.fetch_add(1, Relaxed);
        }
        ready(answer)
    }
}

impl Service {
    fn answer(
        &self,
        SlaveRequest { slave, request }: SlaveRequest<'_>,
    ) -> Result<Response, ExceptionCode> {
        use ExceptionCode::{GatewayTargetDevice, IllegalFunction};
        use Table::{Coil, Discrete, Holding, Input};
        let verdict = self.connection.verdict();
        if slave != self.device.unit_id {
            return Err(GatewayTargetDevice);
        }
        if let Some(exception) = verdict {
            return Err(exception);
        }
        match request {
            Request::ReadCoils(at, count) => self
                .read(Coil, at, count)
                .map(|bits| Response::ReadCoils(to_bits(&bits))),
            Request::ReadDiscreteInputs(at, count) => self
                .read(Discrete, at, count)
                .map(|bits| Response::ReadDiscreteInputs(to_bits(&bits))),
            Request::ReadHoldingRegisters(at, count) => self
                .read(Holding, at, count)
                .map(Response::ReadHoldingRegisters),
            Request::ReadInputRegisters(at, count) => self
                .read(Input, at, count)
                .map(Response::ReadInputRegisters),
            Request::WriteSingleCoil(at, on) => self
                .write(Coil, at, &[u16::from(on)])
                .map(|()| Response::WriteSingleCoil(at, on)),
            Request::WriteMultipleCoils(at, bits) => {
                let words: Vec<u16> = bits.iter().map(|on| u16::from(*on)).collect();
                self.write(Coil, at, &words)
                    .map(|()| Response::WriteMultipleCoils(at, count(&words)))
            }
            Request::WriteSingleRegister(at, word) => self
                .write(Holding, at, &[word])
                .map(|()| Response::WriteSingleRegister(at, word)),
            Request::WriteMultipleRegisters(at, words) => self
                .write(Holding, at, &words)
                .map(|()| Response::WriteMultipleRegisters(at, count(&words))),
            Request::MaskWriteRegister(at, and, or) => self
                .mask_write(at, and, or)
                .map(|()| Response::MaskWriteRegister(at, and, or)),
            Request::ReadWriteMultipleRegisters(read_at, read_count, at, words) => self
                .write_then_read((at, &words), (read_at, read_count))
                .map(Response::ReadWriteMultipleRegisters),
            _ => Err(IllegalFunction),
        }
    }

    fn read(&self, table: Table, at: u16, count: u16) -> Result<Vec<u16>, ExceptionCode> {
        let points = self.device.map.cover(table, at, count)?;
        let values = self.exchange(&format!("read {} {at}+{count}", table.name()), |plant| {
            plant.read(&signals(&points))
        })?;
        self.to_words(&points, &values)
    }

    fn write(&self, table: Table, at: u16, words: &[u16]) -> Result<(), ExceptionCode> {
        let points = self.device.map.cover_writable(table, at, count(words))?;
        let values = to_values(&points, words)?;
        let reason = format!("write {} {at}+{}", table.name(), words.len());
        let names = signals(&points);
        let before = self.exchange(&reason, |plant| {
            let before = plant.read(&names)?;
            plant.write(&values)?;
            Ok(before)
        })?;
        self.tell_writes(&points, &before, &values);
        Ok(())
    }

    fn tell_writes(&self, points: &[&Point], before: &[f64], values: &[(&str, f64)]) {
        for ((point, old), (_, new)) in points.iter().zip(before).zip(values) {
            let written = RegisterWrite {
                client: self.client,
                table: point.table,
                at: point.at,
                signal: point.signal.clone(),
                old: *old,
                new: *new,
            };
            (self.device.on_write)(&self.device.name, &written);
        }
    }

    /// Performs function 23, in which the write precedes the read.
    fn write_then_read(
        &self,
        (at, words): (u16, &[u16]),
        (read_at, read_count): (u16, u16),
    ) -> Result<Vec<u16>, ExceptionCode> {
        let written = self
            .device
            .map
            .cover_writable(Table::Holding, at, count(words))?;
        let read = self.device.map.cover(Table::Holding, read_at, read_count)?;
        let values = to_values(&written, words)?;
        let reason = format!(
            "write holding {at}+{}, read holding {read_at}+{read_count}",
            words.len()
        );
        let names = signals(&written);
        let (before, present) = self.exchange(&reason, |plant| {
            let before = plant.read(&names)?;
            let present = plant.write_then_read(&values, &signals(&read))?;
            Ok((before, present))
        })?;
        self.tell_writes(&written, &before, &values);
        self.to_words(&read, &present)
    }

    /// Performs function 22 on a value of one register. The read and the write happen in one pause,
    /// so that no other client intervenes.
    fn mask_write(&self, at: u16, and: u16, or: u16) -> Result<(), ExceptionCode> {
        let points = self.device.map.cover_writable(Table::Holding, at, 1)?;
        let read = signals(&points);
        let (present, values) = self.exchange(&format!("mask holding {at}"), |plant| {
            let present = plant.read(&read)?;
            let masked = self
                .to_words(&points, &present)
                .and_then(|words| to_values(&points, &[(words[0] & and) | (or & !and)]));
            match masked {
                Ok(values) => plant.write(&values).map(|()| Ok((present, values))),
                Err(exception) => Ok(Err(exception)),
            }
        })??;
        self.tell_writes(&points, &present, &values);
        Ok(())
    }

    /// Performs one exchange with the plant. The pause ends when the reply has been sent.
    fn exchange<T>(
        &self,
        reason: &str,
        act: impl FnOnce(&mut Access<'_>) -> Result<T, PlantError>,
    ) -> Result<T, ExceptionCode> {
        let exchange = &self.device.exchange;
        let hold = match exchange.hold(&self.requester, reason) {
            Ok(hold) => hold,
            Err(error) => {
                self.report(Trouble::Bus(error));
                return Err(ExceptionCode::ServerDeviceFailure);
            }
        };
        let done = exchange.access_held(&hold, act);
        self.connection.owe(hold);
        done.map_err(|error| {
            if matches!(
                error.fault,
                Fault::Refused {
                    during: Op::Write,
                    ..
                }
            ) {
                return ExceptionCode::IllegalDataValue;
            }
            self.report(Trouble::Plant(error));
            ExceptionCode::ServerDeviceFailure
        })
    }

    fn to_words(&self, points: &[&Point], values: &[f64]) -> Result<Vec<u16>, ExceptionCode> {
        let mut words = Vec::new();
        for (point, value) in points.iter().zip(values) {
            let wire = point.to_wire(*value);
            if !point.encoding.append(wire, &mut words) {
                let (signal, encoding) = (point.signal.clone(), point.encoding);
                self.report(Trouble::DoesNotFit {
                    signal,
                    wire,
                    encoding,
                });
                return Err(ExceptionCode::ServerDeviceFailure);
            }
        }
        Ok(words)
    }

    fn report(&self, trouble: Trouble) {
        (self.device.on_trouble)(&self.device.name, trouble);
    }
}

fn signals<'a>(points: &[&'a Point]) -> Vec<&'a str> {
    points.iter().map(|point| point.signal.as_str()).collect()
}

fn to_values<'a>(
    points: &[&'a Point],
    words: &[u16],
) -> Result<Vec<(&'a str, f64)>, ExceptionCode> {
    let mut rest = words;
    let mut values = Vec::with_capacity(points.len());
    for point in points {
        let (own, others) = rest.split_at(point.encoding.width().into());
        let value = point.to_signal(point.encoding.parse(own));
        if !value.is_finite() {
            return Err(ExceptionCode::IllegalDataValue);
        }
        values.push((point.signal.as_str(), value));
        rest = others;
    }
    Ok(values)
}

fn to_bits(words: &[u16]) -> Vec<bool> {
    words.iter().map(|word| *word != 0).collect()
}

fn count(words: &[u16]) -> u16 {
    u16::try_from(words.len()).expect("a frame holds at most 1968 values")
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plant(error) => error.fmt(f),
            Self::Bus(error) => error.fmt(f),
            Self::DoesNotFit {
                signal,
                wire,
                encoding,
            } => {
                write!(
                    f,
                    "signal `{signal}` would be {wire} on the wire, too much for `{encoding}`"
                )
            }
        }
    }
}
