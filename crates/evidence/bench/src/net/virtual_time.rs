//! Real programs in virtual time through the engine: a dilated link that would be too fast for this
//! machine in real time, and pauses that freeze packets in flight.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use serde_json::Value;
use timeloom_emulation::{EmulationReport, FollowedClock, Timing};
use timeloom_guest::{Clock, CommandSpec, Guest, Output, Session};
use timeloom_sys::command::Signal;
use timeloom_time::{ClockMap, Virtual, Wall};

use super::BENCH;
use super::realtime::{
    Bed, Between, DELAY, GBIT, broken, counter, higher, lost_between, received, socket_full,
};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::session;
use crate::scratch::{Scratch, unique};

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    if std::process::Command::new("iperf3")
        .arg("--version")
        .output()
        .is_err()
    {
        return Ok(()); // already reported by `realtime`
    }
    dilated(options, figure)?;
    paused(options, figure)
}

/// Wall seconds per virtual second of the 10 Gbit/s link.
const DILATION: f64 = 20.0;

fn dilated(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let (mut rates, mut late, mut cores) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.pick(1, 5) {
        let stage = Stage::new(options, Between::new(10 * GBIT, DELAY))?;
        stage.session.dilate(DILATION)?;
        let began = timeloom_sys::wall_now();
        let (gbps, _) = stage.iperf3(&["-t", "1", "-C", "cubic"])?;
        let wall = timeloom_sys::wall_now() - began;
        let report = stage.report()?;
        rates.push(gbps);
        late.push(report.lateness.late_fraction());
        cores.push(report.cpu.as_s_f64() / wall.as_s_f64());
    }
    let name = format!("dilated_{DILATION}_tcp_10g_gbps");
    figure(
        higher(name, "Gbit/s", &rates, 9.0)
            .with("late_fraction_1ms", crate::median(&late))
            .with("core", crate::median(&cores))
            .with("simulated_hosts_beside", 1_000)
            .with(
                "what",
                "iperf3's own report, in its virtual time: 10 Gbit/s, 1 ms each way, CUBIC",
            ),
    );
    Ok(())
}

/// Measures a stream of datagrams while the testbed is paused ten times per second.
fn paused(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let (mut losses, mut rates, mut stood) = (Vec::new(), Vec::new(), Vec::new());
    let (mut full, mut dropped, mut between) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.pick(1, 5) {
        let stage = Stage::new(options, Between::new(GBIT, DELAY))?;
        let over = AtomicBool::new(false);
        let said = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(StdDuration::from_millis(70));
                    // If the session cannot be paused, the figures show it.
                    let _ = stage.session.pause();
                    std::thread::sleep(StdDuration::from_millis(30));
                    let _ = stage.session.resume();
                }
            });
            let said = stage.iperf3(&["-t", "2", "-u", "-b", "100M", "-l", "1400"]);
            over.store(true, Ordering::Relaxed);
            said
        });
        let (gbps, lost) = said?;
        losses.push(lost);
        rates.push(gbps);
        full.push(socket_full(&stage.bed.fabric).unwrap_or(0) as f64);
        let sent = counter(&stage.bed.fabric, "a", "Ip:", "OutRequests").unwrap_or(0);
        // Packets in flight arrive within two milliseconds.
        std::thread::sleep(StdDuration::from_millis(200));
        let lost = lost_between(&stage.bed.fabric).unwrap_or(sent);
        between.push(lost as f64 / sent.max(1) as f64);
        dropped.push(stage.report()?.dropped_by_machine() as f64);
        let clock = stage.session.clock();
        stood.push(clock.paused_total().as_s_f64() / clock.wall_elapsed().as_s_f64());
    }
    figure(
        Figure::new(BENCH, "paused_udp_lost_in_network", "ratio", &between)
            .bar(0.001)
            .with("of_the_time_paused", crate::median(&stood))
            .with(
                "what",
                "packets that left one kernel and did not come to the other's, of the same runs",
            ),
    );
    figure(
        Figure::new(BENCH, "paused_udp_loss", "ratio", &losses)
            .with("delivered_gbps", crate::median(&rates))
            .with("demand_gbps", 0.1)
            .with("receiver_had_no_room", crate::median(&full))
            .with("dropped_by_machine", crate::median(&dropped))
            .with("of_the_time_paused", crate::median(&stood))
            .with("what", "iperf3's own report, in its virtual time, while the testbed stops for 30 ms in every 100"),
    );
    Ok(())
}

/// A session with a network that follows the session's clock. Fields are dropped in this order:
/// programs, network, session.
pub(super) struct Stage {
    bed: Bed,
    pub(super) session: Session,
    scratch: Scratch,
}

struct SessionClock(Arc<Clock>);

impl FollowedClock for SessionClock {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        self.0.map()
    }
}

/// A program that is ended when the benchmark ends.
struct Running(Guest);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.signal(Signal::KILL.as_raw());
        self.0.wait();
    }
}

impl Stage {
    pub(super) fn new(options: &Options, between: Between) -> Result<Self, BenchError> {
        let session = session(options)?;
        // The session is paused while the network is built; otherwise the network would start late.
        session.pause()?;
        let follow = || SessionClock(Arc::clone(session.clock()));
        let bed = Bed::build_at(between, || Timing::Follow(Box::new(follow())))?;
        for emulation in bed.emulations() {
            session.clock().on_change(emulation.waker());
        }
        session.resume()?;
        Ok(Self {
            bed,
            session,
            scratch: Scratch::new()?,
        })
    }

    fn report(&self) -> Result<EmulationReport, BenchError> {
        let report = self.bed.emulation.report();
        report.ok_or_else(|| broken("the emulation died"))
    }

    /// Starts iperf3 in `station`. Returns the program and the file with its output.
    fn start(&self, station: &str, arguments: &[&str]) -> Result<(Running, String), BenchError> {
        let path = self.scratch.path().join(unique(station));
        let file = std::fs::File::create(&path).map_err(broken)?;
        let namespace = self.bed.fabric.station(station).expect("just built");
        let network = namespace.as_fd().try_clone_to_owned().map_err(broken)?;
        let spec = CommandSpec {
            output: Output::To(file.into()),
            network: Some(network),
            // The program gets a higher priority than other processes of the machine, which are not
            // measured.
            ..CommandSpec::new(["nice", "-n", "-10", "iperf3"].iter().chain(arguments))
        };
        let guest = Running(self.session.spawn(&spec)?);
        Ok((guest, path.to_string_lossy().into_owned()))
    }

    /// Returns the greatest fraction of events that were more than 1 ms late, over the engines.
    pub(super) fn late_fraction(&self) -> Result<f64, BenchError> {
        let mut worst = 0.0f64;
        for emulation in self.bed.emulations() {
            let report = emulation.report().ok_or_else(|| broken("an engine died"))?;
            let cuts = report.adjacencies.iter();
            let cuts = cuts.map(|cut| cut.lateness.late_fraction());
            worst = cuts.fold(worst.max(report.lateness.late_fraction()), f64::max);
        }
        Ok(worst)
    }

    /// Runs iperf3 from `a` to `b`; returns Gbit/s and the fraction lost.
    pub(super) fn iperf3(&self, arguments: &[&str]) -> Result<(f64, f64), BenchError> {
        let (_server, _) = self.start("b", &["-s"])?;
        for _ in 0..20 {
            std::thread::sleep(StdDuration::from_millis(500));
            let target = ["-J", "-c", &self.bed.target];
            let (client, path) = self.start("a", &[&target, arguments].concat())?;
            client.0.wait();
            let text = std::fs::read_to_string(path).map_err(broken)?;
            let said: Value = serde_json::from_str(&text).unwrap_or_default();
            match received(&said) {
                Ok(found) => return Ok(found),
                Err(error) if error.contains("onnect") => {}
                Err(error) => return Err(broken(format!("iperf3: {error}: {text}"))),
            }
        }
        Err(broken("iperf3 found no server"))
    }
}
