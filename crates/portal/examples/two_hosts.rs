use std::process::Command;
use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_net::*;
use timeloom_portal::*;
use timeloom_time::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |k: &str, d: f64| {
        args.iter()
            .find_map(|a| a.strip_prefix(&format!("{k}=")))
            .map_or(d, |v| v.parse().unwrap())
    };
    let rate = get("gbps", 1.0) * 1e9;
    let st = |n: &str, a: [u8; 4]| StationSpec {
        name: n.into(),
        address: a.into(),
        prefix_len: 30,
        mac: None,
    };
    let fabric = Fabric::build(&NetworkSpec {
        stations: vec![st("a", [10, 0, 0, 1]), st("b", [10, 0, 0, 5])],
        unplugged: vec!["a".into(), "b".into()],
        ..Default::default()
    })
    .unwrap();
    let mut net = NetworkBuilder::new(1);
    let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
    let delay = Duration::from_us(get("us", 1000.0) as i64);
    let fast = LinkConfig::new(1_000_000_000_000, Duration::ZERO);
    net.connect(a, r, fast.clone());
    net.connect(
        r,
        b,
        LinkConfig::new(rate as u64, delay).with_queue(QueueConfig::DropTail {
            packets: get("queue", 1000.0) as u32,
        }),
    );
    let mut world = net.build().unwrap();
    world.set_train_time(Duration::from_us(get("train", 60.0) as i64));
    let mut portals = Portals::new();
    for (n, name) in [(a, "a"), (b, "b")] {
        let port = world.port_of(n).unwrap();
        let address = Address {
            address: world.address(port),
            prefix: world.prefix(port),
            mac: world.mac(port),
            gateway: world.gateway(n),
        };
        println!("{address:?}");
        let tap = Tap::create(fabric.station(name).unwrap(), "eth0", &address).unwrap();
        portals
            .join(n, name, Box::new(tap), Default::default())
            .unwrap();
    }
    let target = world.address(world.port_of(b).unwrap()).to_string();
    let clock = std::sync::Arc::new(Commanded::new(Rate::ONE));
    let options = timeloom_portal::Options {
        moderation: Duration::from_us(get("mod", 50.0) as i64),
        spin: Duration::from_us(get("spin", 0.0) as i64),
        ..Default::default()
    };
    let emu = Emulation::start(world, portals, Timing::Follow(Box::new(clock)), options).unwrap();
    let mut server = Command::new("iperf3");
    server
        .args(["-s", "-1"])
        .stdout(std::process::Stdio::null());
    fabric.station("b").unwrap().confine(&mut server).unwrap();
    let mut server = server.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let extra: Vec<&str> = args
        .iter()
        .skip(1)
        .filter(|a| a.starts_with('-'))
        .map(|s| s.as_str())
        .collect();
    let before = emu.report().unwrap();
    let t0 = wall_now();
    let mut c = Command::new("iperf3");
    c.args(["-c", &target, "-t", &format!("{}", get("t", 3.0))]);
    if !extra.contains(&"-u") {
        c.args(["-C", "cubic"]);
    }
    c.args(extra);
    fabric.station("a").unwrap().confine(&mut c).unwrap();
    c.status().unwrap();
    let t1 = wall_now();
    let _ = server.wait();
    let after = emu.report().unwrap();
    println!(
        "cpu {:.1} %  sleeps/s {:.0}",
        100.0 * (after.cpu - before.cpu).as_ns() as f64 / (t1 - t0).as_ns() as f64,
        (after.sleeps - before.sleeps) as f64 / (t1 - t0).as_s_f64()
    );
    let rep = emu.stop().unwrap();
    println!("{:?}", rep.ports);
    println!("{:?}", rep.counters);
    println!(
        "late {:?} p50 {:?} p99 {:?} worst {:?} untrusted {}",
        rep.lateness.late_fraction(),
        rep.lateness.quantile(0.5),
        rep.lateness.quantile(0.99),
        rep.lateness.worst(),
        rep.untrusted()
    );
}
