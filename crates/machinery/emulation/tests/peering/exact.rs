//! Tests that an exact run in several engines equals, bit by bit, the run in one engine.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::common::{Shape, build, parallel, parallel_over, single};
use timeloom_emulation::peering::exact::{PacketBatch, PeerLost, Shared, WindowExchange};
use timeloom_emulation::peering::message::Messages;
use timeloom_net::Owner;
use timeloom_time::{Duration, Instant, Virtual};

#[test]
fn parts_give_the_results_of_one_engine() {
    for seed in 0..3 {
        for shape in Shape::ALL {
            let whole = single(shape, seed);
            assert!(
                whole.arrivals.len() > 1_000,
                "{shape:?}: too little happens"
            );
            for parts in [2, 3] {
                let found = parallel(shape, seed, parts);
                assert!(found.left > 100, "{shape:?} seed {seed}: nothing crosses");
                let [found, whole] = [&found.report, &whole];
                let at = format!("{shape:?} seed {seed} in {parts}");
                assert_eq!(found.flows, whole.flows, "{at}");
                assert_eq!(found.sources, whole.sources, "{at}");
                assert_eq!(found.fluid, whole.fluid, "{at}");
                assert_eq!(found.links, whole.links, "{at}");
                assert_eq!(found.arrivals, whole.arrivals, "{at}");
                // A packet that is lost on a cut cable and still in flight at the end is counted at
                // once. The lossy network is therefore excluded from this comparison.
                if !matches!(shape, Shape::Rough) {
                    assert_eq!(found.hops, whole.hops, "{at}");
                }
            }
        }
    }
}

#[test]
fn an_engine_that_ends_does_not_leave_the_others_waiting() {
    let mut both = Shared::new(2 as Owner).into_iter();
    let (mut first, second) = (both.next().unwrap(), both.next().unwrap());
    let other = std::thread::spawn(move || drop(second));
    let answer = first.exchange(
        Instant::ZERO + Duration::from_ms(1),
        &mut [Default::default(), Default::default()],
        &mut Default::default(),
    );
    other.join().unwrap();
    assert!(matches!(answer, Err(PeerLost(_))));
}

/// WindowExchange that transfers bytes only, as between processes.
struct Bytes {
    here: usize,
    messages: Messages,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl WindowExchange for Bytes {
    fn exchange(
        &mut self,
        next: Instant<Virtual>,
        leaving: &mut [PacketBatch],
        arriving: &mut PacketBatch,
    ) -> Result<Instant<Virtual>, PeerLost> {
        let gone = |why: &str| PeerLost(why.to_owned());
        let mut least = next;
        for (to, batch) in leaving.iter_mut().enumerate() {
            if to != self.here {
                let mut out = Vec::new();
                self.messages.write(next, batch, &mut out);
                self.to[to].send(out).map_err(|_| gone("not there"))?;
            }
            batch.clear();
        }
        for from in (0..self.from.len()).filter(|from| *from != self.here) {
            let message = self.from[from].recv().map_err(|_| gone("silent"))?;
            let theirs = self.messages.read(&message, arriving);
            least = least.min(theirs.map_err(|_| gone("nonsense"))?);
        }
        Ok(least)
    }
}

#[test]
fn engines_that_exchange_bytes_give_the_results_of_one() {
    for (shape, parts) in [(Shape::Rough, 3), (Shape::Campus, 2)] {
        let whole = single(shape, 5);
        let world = build(shape, 5);
        let mut receivers: Vec<Vec<Receiver<Vec<u8>>>> = Vec::new();
        let mut senders: Vec<Vec<Sender<Vec<u8>>>> = vec![Vec::new(); parts.into()];
        for _ in 0..parts {
            receivers.push(Vec::new());
        }
        for sender in &mut senders {
            for receiver in &mut receivers {
                let (to, from) = channel();
                sender.push(to);
                receiver.push(from);
            }
        }
        let exchanges = senders.into_iter().zip(receivers).enumerate();
        let exchanges = exchanges.map(|(here, (to, from))| Bytes {
            here,
            messages: Messages::of(&world),
            to,
            from,
        });
        let found = parallel_over(shape, 5, parts, exchanges.collect());
        assert!(found.left > 100, "{shape:?}: nothing crosses");
        assert_eq!(
            found.report.arrivals, whole.arrivals,
            "{shape:?} in {parts}"
        );
        assert_eq!(found.report.flows, whole.flows, "{shape:?} in {parts}");
    }
}
