//! Tests of the Modbus device with the client of `tokio-modbus` and with raw sockets.

use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Clock, init, spec};
use timeloom_bus::{Bus, HoldRecord, RecordKind};
use timeloom_plant::modbus::{
    DeviceSpec, DeviceStats, Encoding, ModbusDevice, Point, RegisterMap, RegisterWrite, Table,
    Trouble,
};
use timeloom_plant::{Exchange, Fault, PlantProcess};
use tokio_modbus::ExceptionCode;
use tokio_modbus::client::{Context, tcp};
use tokio_modbus::prelude::{Client, Reader, Request, Slave, Writer};

struct World {
    clock: Arc<Clock>,
    device: ModbusDevice,
    exchange: Arc<Exchange>,
    trouble: Mutex<Receiver<Trouble>>,
    writes: Mutex<Receiver<RegisterWrite>>,
    records: Mutex<Receiver<HoldRecord>>,
}

fn point(table: Table, at: u16, encoding: Encoding, signal: &str) -> Point {
    Point {
        table,
        at,
        encoding,
        signal: signal.to_owned(),
        scale: 1.0,
        offset: 0.0,
    }
}

fn world(misdeed: &str) -> World {
    let clock = Clock::new();
    let (sink, records) = channel();
    let bus = Bus::builder(clock.clone()).records(sink).build();
    let plant = PlantProcess::start(&spec(&[misdeed]), &init(&[])).unwrap();
    let exchange = Arc::new(Exchange::new(bus, plant, |_| ()));
    let mut points = vec![
        Point {
            scale: 10.0,
            offset: 1.0,
            ..point(Table::Input, 0, Encoding::I16, "level")
        },
        point(Table::Input, 1, Encoding::F64, "time"),
        point(Table::Input, 5, Encoding::U16, "big"),
        point(Table::Holding, 0, Encoding::F32, "set"),
        point(Table::Holding, 2, Encoding::U32, "big"),
        point(Table::Holding, 4, Encoding::I16, "switch"),
        point(Table::Holding, 5, Encoding::I16, "level"),
        point(Table::Coil, 7, Encoding::Bit, "switch"),
        point(Table::Coil, 8, Encoding::Bit, "set"),
        point(Table::Discrete, 0, Encoding::Bit, "level"),
    ];
    points.extend((0..30).map(|n| point(Table::Input, 100 + 4 * n, Encoding::F64, "time")));
    let map = RegisterMap::new(points, exchange.info()).unwrap();
    let (tell, trouble) = channel();
    let (tell_write, writes) = channel();
    let device = ModbusDevice::start(
        DeviceSpec {
            name: "relay".to_owned(),
            unit_id: 9,
            max_connections: 8,
        },
        TcpListener::bind("127.0.0.1:0").unwrap(),
        map,
        exchange.clone(),
        move |name, what| {
            assert_eq!(name, "relay");
            tell.send(what).unwrap();
        },
        move |name, written| {
            assert_eq!(name, "relay");
            tell_write.send(written.clone()).unwrap();
        },
    )
    .unwrap();
    World {
        clock,
        device,
        exchange,
        trouble: Mutex::new(trouble),
        writes: Mutex::new(writes),
        records: Mutex::new(records),
    }
}

impl World {
    /// Runs `talk` with a client that is connected to the device.
    fn client<T>(&self, unit_id: u8, talk: impl AsyncFnOnce(Context) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let address = self.device.local_addr();
            talk(tcp::connect_slave(address, Slave(unit_id)).await.unwrap()).await
        })
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.device.local_addr()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream
    }

    fn wait(&self, what: impl Fn(DeviceStats) -> bool) {
        let began = Instant::now();
        while !what(self.device.stats()) {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "{:?}",
                self.device.stats()
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn runs_again(&self) {
        let began = Instant::now();
        while self.clock.stands() {
            assert!(began.elapsed() < Duration::from_secs(120), "still standing");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns a request to read `count` input registers from `at`.
fn read_input(transaction: u8, at: u8, count: u8) -> [u8; 12] {
    [0, transaction, 0, 0, 0, 6, 9, 4, 0, at, 0, count]
}

#[test]
fn every_function_works() {
    let world = world("");
    world.client(9, async |mut client| {
        assert_eq!(
            client.read_input_registers(0, 1).await.unwrap().unwrap(),
            [126]
        );
        client
            .write_multiple_registers(0, &[0x3FC0, 0])
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            client.read_holding_registers(0, 4).await.unwrap().unwrap(),
            [0x3FC0, 0, 0xF, 0x4240]
        );
        client
            .write_single_register(4, 0xFFFF)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            client.read_coils(7, 2).await.unwrap().unwrap()[..2],
            [false, true]
        );
        client.write_single_coil(7, true).await.unwrap().unwrap();
        client
            .write_multiple_coils(7, &[true, false])
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            client.read_coils(7, 2).await.unwrap().unwrap(),
            [true, false]
        );
        assert_eq!(
            client.read_discrete_inputs(0, 1).await.unwrap().unwrap(),
            [true]
        );
        client
            .masked_write_register(4, 0x00F0, 0x0102)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            client.read_holding_registers(4, 1).await.unwrap().unwrap(),
            [0x0102]
        );
        let both = client
            .read_write_multiple_registers(4, 1, 4, &[77])
            .await
            .unwrap()
            .unwrap();
        assert_eq!(both, [77], "the write comes first");
    });
    world.runs_again();
    let stats = world.device.stats();
    assert_eq!(
        (stats.requests, stats.exceptions, stats.late_replies),
        (12, 0, 0)
    );
    // There may be fewer pauses than requests: this client is not paused, so its next request may
    // arrive before the pause has ended.
    assert!((1..=12).contains(&world.clock.pauses.load(SeqCst)));
    assert!(world.records.lock().unwrap().try_iter().any(|record| {
        record.action == RecordKind::Hold
            && record.reason == "read input 0+1"
            && record.requester.starts_with("relay for 127.0.0.1:")
    }));
    writes_are_told(&world);
}

/// Every value written must be reported, in order, with the client and the signal's previous value.
fn writes_are_told(world: &World) {
    let writes: Vec<RegisterWrite> = world.writes.lock().unwrap().try_iter().collect();
    let told: Vec<_> = (writes.iter())
        .map(|it| (it.table, it.at, &*it.signal, it.new))
        .collect();
    let expected = [
        (Table::Holding, 0, "set", 1.5),
        (Table::Holding, 4, "switch", -1.0),
        (Table::Coil, 7, "switch", 1.0),
        (Table::Coil, 7, "switch", 1.0),
        (Table::Coil, 8, "set", 0.0),
        (Table::Holding, 4, "switch", 258.0),
        (Table::Holding, 4, "switch", 77.0),
    ];
    assert_eq!(told, expected);
    assert!(writes.iter().all(|it| it.client.ip().is_loopback()));
    for (index, write) in writes.iter().enumerate() {
        let earlier = writes[..index].iter().rev();
        if let Some(before) = earlier.into_iter().find(|it| it.signal == write.signal) {
            assert_eq!(write.old, before.new, "{write:?}");
        }
    }
}

#[test]
fn every_mistake_has_its_exception() {
    use ExceptionCode::{IllegalDataAddress, IllegalDataValue, IllegalFunction};
    let world = world("");
    world.client(9, async |mut client| {
        for (at, count) in [(1, 2), (2, 4), (6, 1), (5, 2), (65535, 2)] {
            let answer = client.read_input_registers(at, count).await.unwrap();
            assert_eq!(answer, Err(IllegalDataAddress), "{at}+{count}");
        }
        assert_eq!(
            client.write_single_register(0, 1).await.unwrap(),
            Err(IllegalDataAddress),
            "a half"
        );
        assert_eq!(
            client.write_single_register(5, 1).await.unwrap(),
            Err(IllegalDataAddress),
            "read-only"
        );
        assert_eq!(
            client.read_input_registers(0, 126).await.unwrap(),
            Err(IllegalDataValue)
        );
        let infinite = client
            .write_multiple_registers(0, &[0x7F80, 0])
            .await
            .unwrap();
        assert_eq!(infinite, Err(IllegalDataValue));
        let report = client.call(Request::ReportServerId).await.unwrap();
        assert_eq!(report, Err(IllegalFunction));
        assert_eq!(
            world.clock.pauses.load(SeqCst),
            0,
            "none of these needs the plant"
        );
        // The value 5000.0, which the plant itself refuses.
        let refused = client
            .write_multiple_registers(0, &[0x459C, 0x4000])
            .await
            .unwrap();
        assert_eq!(refused, Err(IllegalDataValue));
        assert!(world.trouble.lock().unwrap().try_recv().is_err());
        // A million does not fit into 16 bits.
        let answer = client.read_input_registers(5, 1).await.unwrap();
        assert_eq!(answer, Err(ExceptionCode::ServerDeviceFailure));
        let trouble = world.trouble.lock().unwrap().recv().unwrap();
        assert!(matches!(&trouble, Trouble::DoesNotFit { signal, .. } if signal == "big"));
        assert!(!trouble.ends_the_run());
        assert_eq!(
            client.read_input_registers(0, 1).await.unwrap(),
            Ok(vec![126]),
            "lives on"
        );
    });
    let other = world.client(10, async |mut client| {
        client.read_input_registers(0, 1).await.unwrap()
    });
    assert_eq!(other, Err(ExceptionCode::GatewayTargetDevice));
}

#[test]
fn the_reply_is_there_before_the_testbed_goes_on() {
    let world = world("");
    let mut stream = world.raw();
    // Bytes that the guest would find at the instant at which its time resumes.
    let guest = stream.try_clone().unwrap();
    let (tell, told) = channel();
    *world.clock.on_resume.lock().unwrap() = Box::new(move || {
        guest.set_nonblocking(true).unwrap();
        tell.send(guest.peek(&mut [0; 64]).ok()).unwrap();
        guest.set_nonblocking(false).unwrap();
    });
    for round in 0..100 {
        stream.write_all(&read_input(round, 0, 1)).unwrap();
        assert_eq!(told.recv().unwrap(), Some(11), "round {round}");
        world.runs_again();
        let mut reply = [0; 11];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, [0, round, 0, 0, 0, 5, 9, 4, 2, 0, 126]);
    }
}

#[test]
fn overlapping_requests_share_a_pause() {
    let world = world("slow");
    let barrier = Barrier::new(6);
    thread::scope(|scope| {
        for me in 0..6 {
            let (world, barrier) = (&world, &barrier);
            scope.spawn(move || {
                let mut stream = world.raw();
                let mut reply = [0; 17];
                for round in 0..5 {
                    barrier.wait();
                    thread::sleep(Duration::from_millis(5 * me));
                    stream.write_all(&read_input(round, 1, 4)).unwrap();
                    stream.read_exact(&mut reply).unwrap();
                }
            });
        }
    });
    world.runs_again();
    // The first request of each round takes 50 ms, and the others arrive within 25 ms.
    assert_eq!(
        world.clock.pauses.load(SeqCst),
        5,
        "one pause for each round of six requests"
    );
    assert_eq!(world.exchange.stats().accesses, 30);
    let World {
        clock,
        device,
        exchange,
        records,
        ..
    } = world;
    drop((device, exchange, clock));
    let records: Vec<HoldRecord> = records.into_inner().unwrap().iter().collect();
    let held = records
        .iter()
        .filter(|record| record.action == RecordKind::Hold)
        .count();
    assert_eq!(held, 30);
    assert!(
        records
            .windows(2)
            .all(|pair| pair[0].t_virtual <= pair[1].t_virtual)
    );
    assert_eq!(records.last().unwrap().action, RecordKind::Resume);
}

#[test]
fn many_clients_at_once_see_time_go_forward() {
    let world = world("");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                world.client(9, async |mut client| {
                    let mut last = 0.0;
                    for _ in 0..100 {
                        let words = client.read_input_registers(1, 4).await.unwrap().unwrap();
                        let bits = words
                            .iter()
                            .fold(0, |bits, word| bits << 16 | u64::from(*word));
                        let now = f64::from_bits(bits);
                        assert!(now >= last, "{now} after {last}");
                        last = now;
                    }
                });
            });
        }
    });
    world.runs_again();
    assert_eq!(world.device.stats().requests, 800);
}

#[test]
fn a_plant_that_fails_is_reported_and_answers_0x04() {
    for misdeed in [
        "die-on-read",
        "hang-on-advance",
        "nonsense-on-read",
        "oversize-on-read",
    ] {
        let world = world(misdeed);
        let answer = world.client(9, async |mut client| {
            let first = client.read_input_registers(0, 1).await.unwrap();
            assert_eq!(
                client.read_input_registers(0, 1).await.unwrap(),
                first,
                "and stays so"
            );
            first
        });
        assert_eq!(answer, Err(ExceptionCode::ServerDeviceFailure), "{misdeed}");
        let trouble = world.trouble.lock().unwrap().recv().unwrap();
        assert!(trouble.ends_the_run());
        let Trouble::Plant(error) = trouble else {
            panic!("{trouble}")
        };
        assert!(!matches!(error.fault, Fault::Refused { .. }), "{error}");
        world.runs_again();
    }
}

#[test]
fn broken_frames_end_the_connection_and_are_counted() {
    let world = world("");
    let broken: [&[u8]; 5] = [
        &[0, 1, 0, 7, 0, 6, 9, 4, 0, 0, 0, 1],
        &[0, 1, 0, 0, 0xFF, 0xFF, 9, 4],
        &[0, 1, 0, 0, 0, 3, 9, 0x84, 1],
        &[0, 1, 0, 0, 0, 9, 9, 16, 0, 0, 0, 1, 9, 0, 0],
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for (count, bytes) in (1..).zip(broken) {
        let mut stream = world.raw();
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
        world.wait(|stats| stats.malformed == count && stats.open == 0);
    }
    // Requests that are split, joined or have invalid values do not count as malformed.
    let mut stream = world.raw();
    let bytes = [
        read_input(1, 0, 1),
        read_input(2, 0, 0),
        read_input(3, 0, 1),
    ]
    .concat();
    for part in [&bytes[..5], &bytes[5..9], &bytes[9..]] {
        stream.write_all(part).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    let mut replies = [0; 11 + 9 + 11];
    stream.read_exact(&mut replies).unwrap();
    assert_eq!(
        replies[..11],
        replies[20..]
            .iter()
            .scan(0, |at, byte| {
                *at += 1;
                Some(if *at == 2 { 1 } else { *byte })
            })
            .collect::<Vec<u8>>()[..]
    );
    assert_eq!(replies[11..20], [0, 2, 0, 0, 0, 3, 9, 0x84, 3]);
    assert_eq!(world.device.stats().malformed, 5);
}

#[test]
fn one_client_too_many_is_turned_away() {
    let world = world("");
    let mut streams: Vec<TcpStream> = (0..8).map(|_| world.raw()).collect();
    world.wait(|stats| stats.open == 8);
    assert_eq!(world.raw().read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(world.device.stats().turned_away, 1);
    drop(streams.pop());
    world.wait(|stats| stats.open == 7);
    let mut stream = world.raw();
    stream.write_all(&read_input(1, 0, 1)).unwrap();
    stream.read_exact(&mut [0; 11]).unwrap();
}

#[test]
fn a_guest_that_does_not_read_cannot_hold_the_testbed() {
    let world = world("");
    let mut stream = world.raw();
    stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let many: Vec<u8> = (0..4000).flat_map(|_| read_input(1, 100, 120)).collect();
    // Repeats until the buffers in both directions are full; their size is unknown.
    let began = Instant::now();
    let mut at = 0;
    while world.device.stats().late_replies == 0 {
        assert!(began.elapsed() < Duration::from_secs(120));
        match stream.write(&many[at..]) {
            Ok(written) => at = (at + written) % many.len(),
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut) => {}
            Err(error) => panic!("{error}"),
        }
    }
    world.wait(|stats| stats.late_replies > 0);
    world.runs_again();
    drop(stream);
    world.wait(|stats| stats.open == 0);
    world.runs_again();
}

#[test]
fn a_client_that_leaves_and_a_device_that_closes_let_go() {
    let world = world("slow");
    let mut stream = world.raw();
    stream.write_all(&read_input(1, 0, 1)).unwrap();
    thread::sleep(Duration::from_millis(10));
    drop(stream);
    world.runs_again();
    let mut stream = world.raw();
    stream.write_all(&read_input(1, 0, 1)).unwrap();
    thread::sleep(Duration::from_millis(10));
    let World { clock, device, .. } = world;
    drop(device);
    assert!(!clock.stands());
}

#[test]
#[ignore = "a measurement: cargo test -p timeloom-plant --test all modbus:: -- --ignored --nocapture"]
fn duration_of_an_exchange() {
    let world = world("");
    let median = |mut all: Vec<u128>| {
        all.sort_unstable();
        all[all.len() / 2] as f64 / 1000.0
    };
    let direct: Vec<u128> = (0..3000)
        .map(|_| {
            let began = Instant::now();
            world
                .exchange
                .access("bench", "", |plant| plant.read(&["level"]))
                .unwrap();
            began.elapsed().as_nanos()
        })
        .collect();
    let mut stream = world.raw();
    stream.set_nodelay(true).unwrap();
    let modbus: Vec<u128> = (0..3000)
        .map(|_| {
            let began = Instant::now();
            stream.write_all(&read_input(1, 0, 1)).unwrap();
            stream.read_exact(&mut [0; 11]).unwrap();
            began.elapsed().as_nanos()
        })
        .collect();
    let stats = world.exchange.stats();
    let plant = stats.plant.as_ns() as f64 / stats.accesses as f64 / 1000.0;
    eprintln!(
        "exchange {:.1} us, modbus {:.1} us (medians)",
        median(direct),
        median(modbus)
    );
    eprintln!("of which the plant's round trip, mean: {plant:.1} us");
}
