//! Transport of the peering portal: packet events from one socket to another.
//!
//! The packets are those that crossed the bottleneck in a simulated run. Two alternatives send the
//! same events as flat messages of 200 bytes: one per datagram, and seven per datagram as in the
//! paper.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time;

use timeloom_emulation::peering::Socket;
use timeloom_emulation::peering::codec::Statics;
use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::{Datagrams, Peer, PeerConfig};
use timeloom_engine::Engine;
use timeloom_net::{Owner, Packet, World};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant};

use super::model::{go_first, own_core, thread_cpu_s};
use super::pair::{self, Model};
use super::{BENCH, higher};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let model = Model::tcp(64, Duration::from_ms(1));
    let (statics, [data, acks]) = crossings(&model, options.pick(60, 200))?;
    let span = time::Duration::from_millis(options.pick(200, 500));
    let rounds = options.pick(3, 5);

    let (mut all, mut each, mut packed, mut ratio) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        each.push(first(|| flat(200, span))?.per_second());
        packed.push(first(|| flat(1_400, span))?.per_second());
        let found = first(|| portal(&statics, &data, span))?;
        ratio.push(found.per_second() / packed[packed.len() - 1]);
        all.push(found);
    }
    let of = |value: fn(&Carried) -> f64| all.iter().map(value).collect::<Vec<_>>();
    let by_speed = |a: &&Carried, b: &&Carried| a.per_second().total_cmp(&b.per_second());
    let slowest = all.iter().min_by(by_speed).expect("a round");
    figure(
        higher(Figure::new(
            BENCH,
            "peering_messages_per_second",
            "1/s",
            &of(Carried::per_second),
        ))
        .bar(20e6)
        .with("one_datagram_each_per_second", crate::median(&each))
        .with("seven_to_a_datagram_per_second", crate::median(&packed))
        .with(
            "sender_cpu_ns_per_message",
            crate::median(&of(|one| one.sender_ns)),
        )
        .with(
            "receiver_cpu_ns_per_message",
            crate::median(&of(|one| one.receiver_ns)),
        )
        .with("lost_fraction", crate::median(&of(|one| one.lost)))
        // This helps to explain the slowest round: if its loss is high, the receiver did not run.
        .with("slowest_sender_cpu_ns_per_message", slowest.sender_ns)
        .with("slowest_receiver_cpu_ns_per_message", slowest.receiver_ns)
        .with("slowest_lost_fraction", slowest.lost)
        .with(
            "messages",
            "packet events of 200 bytes, delta-coded and sealed, over loopback",
        ),
    );
    figure(higher(Figure::new(
        BENCH,
        "peering_over_packed",
        "ratio",
        &ratio,
    )));
    for (name, packets) in [("data", &data), ("acks", &acks)] {
        let (bytes, count) = size(&statics, packets);
        figure(
            Figure::new(
                BENCH,
                format!("peering_{name}_bytes_per_packet"),
                "bytes",
                &[bytes],
            )
            .bar(12.0)
            .with("packets", count)
            .with(
                "counts",
                "datagrams of 1,400 bytes with header and seal, without UDP and below",
            ),
        );
    }
    Ok(())
}

/// Cost of transporting packets between engines, in seconds of processor time.
pub(super) struct CarryCosts {
    /// Cost of a packet in a datagram with others: at the sender, and at the receiver.
    pub(super) packet: [f64; 2],
    /// Cost of sending or of receiving a datagram with one packet: half of both together.
    pub(super) datagram: f64,
}

/// Measures the costs quickly; [`run`] measures them at length.
pub(super) fn costs() -> Result<CarryCosts, BenchError> {
    let (statics, [data, _]) = crossings(&Model::tcp(64, Duration::from_ms(1)), 60)?;
    let span = time::Duration::from_millis(200);
    let together = first(|| portal(&statics, &data, span))?;
    let each = first(|| flat(200, span))?;
    Ok(CarryCosts {
        packet: [together.sender_ns, together.receiver_ns].map(|ns| ns * 1e-9),
        datagram: (each.sender_ns + each.receiver_ns) / 2.0 * 1e-9,
    })
}

/// Runs `work` on a new thread with a higher priority than ordinary threads.
fn first<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            go_first();
            work()
        });
        thread.join().expect("a benchmark does not panic")
    })
}

/// Returns the packets that cross a dumbbell's bottleneck link in so many ms, in both directions.
fn crossings(model: &Model, ms: i64) -> Result<(Statics, [Vec<Packet>; 2]), BenchError> {
    let (mut engines, mut found) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (world, cut) = pair::build(model)?;
    let statics = Statics::of(&world);
    drop(world);
    for here in 0..2 {
        let (mut world, _) = pair::build(model)?;
        cut.apply(&mut world, here);
        let mut engine: Engine<World> = Engine::new(world);
        engine.with(|world, agenda| world.start(agenda));
        engines.push(engine);
    }
    // Both engines run on one thread alternately, in steps as long as the delay of the link.
    for turn in 1..=ms {
        let end = Instant::ZERO + Duration::from_ms(turn) - Duration::from_ns(1);
        for engine in &mut engines {
            engine.run_until(end, u64::MAX);
        }
        for here in 0..2 {
            let left = std::mem::take(&mut engines[here].model.crossings().packets);
            for packet in &left {
                engines[1 - here].with(|world, agenda| world.take_over(packet, &[], agenda));
            }
            found[here].extend(left);
        }
    }
    Ok((statics, found))
}

struct Carried {
    messages: u64,
    wall_s: f64,
    sender_ns: f64,
    receiver_ns: f64,
    lost: f64,
}

impl Carried {
    fn per_second(&self) -> f64 {
        self.messages as f64 / self.wall_s
    }
}

fn sockets() -> Result<(Socket, Socket), BenchError> {
    let failed = || BenchError::system("opening sockets");
    let bind = || UdpSocket::bind("127.0.0.1:0");
    let (a, b) = (bind().map_err(failed())?, bind().map_err(failed())?);
    let (to_a, to_b) = (
        a.local_addr().map_err(failed())?,
        b.local_addr().map_err(failed())?,
    );
    Ok((
        Socket::new(a, to_b).map_err(failed())?,
        Socket::new(b, to_a).map_err(failed())?,
    ))
}

/// Sends with `send` on this thread and receives with `take` on another, for the time `span`. Both
/// return the number of messages.
fn carry(
    span: time::Duration,
    mut send: impl FnMut() -> Result<u64, BenchError>,
    mut take: impl FnMut() -> Result<u64, BenchError> + Send,
) -> Result<Carried, BenchError> {
    let done = Arc::new(AtomicBool::new(false));
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let over = Arc::clone(&done);
        let ready = &ready;
        let receiver = scope.spawn(move || -> Result<(u64, f64), BenchError> {
            own_core(0);
            go_first();
            ready.wait();
            let cpu = thread_cpu_s();
            let mut count = 0;
            loop {
                let ending = over.load(Ordering::Relaxed);
                let got = take()?;
                count += got;
                if ending && got == 0 {
                    return Ok((count, thread_cpu_s() - cpu));
                }
            }
        });
        own_core(1);
        // If the kernel puts the receiver on the core of this thread, the receiver waits, and would
        // stay there because this thread never sleeps.
        ready.wait();
        let (start, cpu) = (time::Instant::now(), thread_cpu_s());
        let mut sent = 0;
        let mut failed = None;
        while start.elapsed() < span && failed.is_none() {
            match send() {
                Ok(count) => sent += count,
                Err(error) => failed = Some(error),
            }
        }
        let cpu_sent = thread_cpu_s() - cpu;
        done.store(true, Ordering::Relaxed);
        let (messages, cpu_taken) = receiver.join().expect("the receiver does not panic")?;
        let wall_s = start.elapsed().as_secs_f64();
        match failed {
            Some(error) => Err(error),
            None => Ok(Carried {
                messages,
                wall_s,
                sender_ns: cpu_sent * 1e9 / sent.max(1) as f64,
                receiver_ns: cpu_taken * 1e9 / messages.max(1) as f64,
                lost: 1.0 - messages as f64 / sent.max(1) as f64,
            }),
        }
    })
}

/// Measures the protocol of the peering portal.
fn portal(
    statics: &Statics,
    packets: &[Packet],
    span: time::Duration,
) -> Result<Carried, BenchError> {
    let (mut a, mut b) = sockets()?;
    let peer = |here: Owner, there| {
        let key = Key::new([1; 32]);
        Peer::new(here, there, key, 1 + u64::from(here), PeerConfig::default())
    };
    let (mut from, mut to) = (peer(0, 1), peer(1, 0));
    let failed = |error| BenchError::system("the sockets of a portal")(error);
    let mut out = Datagrams::default();
    for _ in 0..100 {
        for (peer, socket) in [(&mut from, &mut a), (&mut to, &mut b)] {
            let now = wall_now();
            peer.poll(now, &mut out);
            socket.send(&out).map_err(failed)?;
            out.clear();
            let hear = |bytes: &[u8]| {
                peer.handle_datagram(now, bytes, statics, |_, _| ());
            };
            socket.receive(8, hear).map_err(failed)?;
        }
    }
    if !from.is_present() {
        return Err(BenchError::Worker(
            "the other end of a portal did not answer".to_owned(),
        ));
    }
    let mut source = packets.iter().cycle();
    let send = || {
        let now = wall_now();
        let before = from.stats().packets_sent;
        while out.lengths.len() < TRAIN {
            for packet in source.by_ref().take(256) {
                from.put(now, packet, &[], Duration::from_ms(1), statics, &mut out);
            }
        }
        a.send(&out).map_err(failed)?;
        out.clear();
        Ok(from.stats().packets_sent - before)
    };
    let take = || {
        let now = wall_now();
        let mut got = 0;
        let mut sum = 0i64;
        b.receive(64, |bytes| {
            to.handle_datagram(now, bytes, statics, |packet, _| {
                got += 1;
                sum ^= packet.at.as_ns();
            });
        })
        .map_err(failed)?;
        std::hint::black_box(sum);
        if got == 0 {
            std::thread::yield_now();
        }
        Ok(got)
    };
    carry(span, send, take)
}

/// Number of datagrams that are passed to the kernel at a time: one train of 1,400 bytes each.
const TRAIN: usize = 46;

/// Measures flat messages of 200 bytes in datagrams of `datagram` bytes, with one system call each.
fn flat(datagram: usize, span: time::Duration) -> Result<Carried, BenchError> {
    let (mut a, mut b) = sockets()?;
    a.set_trains(false);
    let failed = |error| BenchError::system("the sockets of a portal")(error);
    let mut out = Datagrams {
        bytes: vec![7; datagram * 16],
        lengths: vec![datagram as u32; 16],
    };
    let message = [9u8; 200];
    let send = || {
        for place in out.bytes.chunks_mut(200) {
            place.copy_from_slice(&message);
        }
        a.send(&out).map_err(failed)?;
        Ok(out.bytes.len() as u64 / 200)
    };
    let mut kept = [0u8; 200];
    let take = || {
        let mut got = 0;
        b.receive(64, |bytes| {
            for message in bytes.chunks(200) {
                kept[..message.len()].copy_from_slice(message);
                got += 1;
            }
        })
        .map_err(failed)?;
        std::hint::black_box(&kept);
        if got == 0 {
            std::thread::yield_now();
        }
        Ok(got)
    };
    carry(span, send, take)
}

/// Returns the bytes of datagrams per packet, and the number of packets.
fn size(statics: &Statics, packets: &[Packet]) -> (f64, u64) {
    let key = Key::new([1; 32]);
    let mut body = timeloom_emulation::peering::datagram::DatagramBody::default();
    let (mut scratch, mut out, mut bytes, mut count) = (Vec::new(), Vec::new(), 0, 0);
    let header = timeloom_emulation::peering::datagram::DatagramHeader::default();
    for packet in packets {
        if body.len() + 96 > 1_400 - timeloom_emulation::peering::datagram::OVERHEAD {
            count += body.count();
            scratch.clear();
            body.finish(true, &mut scratch);
            out.clear();
            header.write(&scratch, 1_400, &key, &mut out);
            bytes += out.len();
        }
        body.put(packet, &[], statics);
    }
    (bytes as f64 / count.max(1) as f64, count)
}
