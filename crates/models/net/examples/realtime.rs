//! A network in real time, or dilated: how late is it on this machine?
//!
//! `cargo run --release -p timeloom-net --example realtime -- [--seconds 5]
//! [--hosts 1000] [--rate 100] [--dilation 1] [--spin-us 60]`
//!
//! Half of the hosts of a dumbbell send UDP to the other half, `--rate` Mbit/s
//! in all, while the engine follows the wall clock. Prints one JSON line with
//! the lateness. It sleeps until shortly before the next event and spins the
//! rest, because the kernel wakes sleepers some 50 µs late.

use std::time;

use timeloom_engine::{Engine, Limit, Pace, Paced, Wake};
use timeloom_net::topology::dumbbell;
use timeloom_net::{LinkConfig, NetworkBuilder, Pattern, Size, TrafficConfig, World};
use timeloom_time::{ClockMap, Duration, Instant, Rate, Wall};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = [
        ("--seconds", 5.0),
        ("--hosts", 1_000.0),
        ("--rate", 100.0),
        ("--dilation", 1.0),
        ("--spin-us", 60.0),
    ];
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let option = options.iter_mut().find(|(name, _)| *name == word);
        let (_, value) = option.ok_or_else(|| format!("unknown option {word}"))?;
        *value = words.next().ok_or("a value is missing")?.parse()?;
    }
    let [seconds, hosts, rate, dilation, spin_us] = options.map(|(_, value)| value);

    let mut network = NetworkBuilder::new(1);
    let access = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
    let bottleneck = LinkConfig::new(10_000_000_000, Duration::from_ms(1));
    let ends = dumbbell(&mut network, "", hosts as u32 / 2, &access, &bottleneck);
    let mut world = network.build()?;
    let pairs = ends.left.len() as f64;
    let mean = Duration::from_ns((1000.0 * 8.0 * pairs / (rate * 1e6) * 1e9) as i64);
    for (from, to) in ends.left.iter().zip(&ends.right) {
        let poisson = Pattern::Poisson { mean };
        world.add_traffic(*from, *to, TrafficConfig::udp(poisson, Size::Fixed(1000)))?;
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));

    let start = time::Instant::now();
    let wall = || Instant::<Wall>::from_ns(start.elapsed().as_nanos() as i64);
    let speed = Rate::from_f64(1.0 / dilation).ok_or("a dilation is above 0")?;
    let pace = Pace::Clock(ClockMap::new(wall(), Instant::ZERO, speed));
    let limit = Limit {
        late_after: Duration::from_ms(1),
        ..Limit::default()
    };
    let mut paced = Paced::new(engine, pace, limit);
    let end = Instant::from_ns((seconds * 1e9) as i64);
    let spin = Duration::from_ns((spin_us * 1e3) as i64);
    while wall() < end {
        match paced.poll(wall, 4_096) {
            Wake::Now => {}
            Wake::At(at) => {
                let sleep = (at.min(end) - wall() - spin).as_ns();
                if sleep > 0 {
                    std::thread::sleep(time::Duration::from_nanos(sleep as u64));
                }
                while wall() < at.min(end) {
                    std::hint::spin_loop();
                }
            }
            Wake::OnChange => break,
        }
    }
    let lateness = paced.lateness();
    println!(
        "{{\"bench\":\"realtime\",\"hosts\":{hosts},\"rate_mbps\":{rate},\"dilation\":{dilation},\"wall_s\":{seconds},\
         \"events\":{},\"late_p50_ns\":{},\"late_p99_ns\":{},\"late_worst_ns\":{},\"late_fraction_1ms\":{:.6},\"untrusted\":{}}}",
        lateness.events(),
        lateness.quantile(0.5).as_ns(),
        lateness.quantile(0.99).as_ns(),
        lateness.worst().as_ns(),
        lateness.late_fraction(),
        lateness.is_untrusted(),
    );
    Ok(())
}
