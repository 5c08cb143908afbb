//! Order of the frames in the capture of a link between two engines.
//!
//! Each engine passes the frames that arrive at its end of the link in their order, and reports how
//! far it has come. A frame is written once both engines have come to its instant, so the file has
//! the order in which one engine would have captured the frames.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};

use timeloom_emulation::CaptureProgressCallback;
use timeloom_net::{Owner, PortId};
use timeloom_scenario::{NamedCable, Simulated};
use timeloom_time::{Instant, Virtual, Wall};

/// Captured frame, with the instants of its arrival at the end of the link out of `port`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CapturedFrame {
    pub(super) port: PortId,
    pub(super) at: Instant<Virtual>,
    pub(super) wall: Instant<Wall>,
    pub(super) bytes: Vec<u8>,
}

/// Instants up to which engines have passed all frames that they capture, virtual ns, by engine.
#[derive(Clone)]
pub(super) struct Progress(Arc<[AtomicI64]>);

/// Progress of one engine, which passes no more frames when this is dropped.
struct OfEngine(Progress, usize);

/// Order of the frames of one link.
pub(super) struct Merge {
    /// Progress of the engines at its ends, if there are two.
    ends: Option<(Progress, [usize; 2])>,
    /// Port whose frames precede those of the other end at one instant.
    first: PortId,
}

impl Progress {
    /// Returns the progress of this number of engines, before they start.
    pub(super) fn of(engines: Owner) -> Self {
        Self((0..engines).map(|_| AtomicI64::new(i64::MIN)).collect())
    }

    /// Returns the function by which an engine reports its progress.
    pub(super) fn of_engine(&self, here: Owner) -> CaptureProgressCallback {
        let engine = OfEngine(self.clone(), usize::from(here));
        Box::new(move |passed| engine.set(passed))
    }

    fn get(&self, engine: usize) -> Instant<Virtual> {
        Instant::from_ns(self.0[engine].load(Ordering::Acquire))
    }
}

impl OfEngine {
    fn set(&self, passed: Instant<Virtual>) {
        self.0.0[self.1].store(passed.as_ns(), Ordering::Release);
    }
}

impl Drop for OfEngine {
    fn drop(&mut self) {
        self.set(Instant::FAR_FUTURE);
    }
}

impl Merge {
    /// Returns the order for a cable. Without `progress` frames keep the order in which they come.
    pub(super) fn of(
        cable: &NamedCable,
        simulated: &Simulated,
        progress: Option<&Progress>,
    ) -> Self {
        let world = &simulated.world;
        // An engine handles the events of one instant by node.
        let [there, back] = [cable.there, cable.back].map(|port| world.node_of(port));
        let first = match back < there {
            // Frames of `there` arrive where those of `back` begin.
            true => cable.there,
            false => cable.back,
        };
        let owner = |node: timeloom_net::Node| {
            let parts = simulated.parts.as_ref()?;
            Some(usize::from(parts.cut().owners()[node.0 as usize]))
        };
        let ends = owner(there).zip(owner(back));
        let ends = ends.filter(|(there, back)| there != back);
        let ends = ends.zip(progress);
        Self {
            ends: ends.map(|((there, back), progress)| (progress.clone(), [there, back])),
            first,
        }
    }

    /// Returns the frames in order.
    pub(super) fn in_order(
        self,
        frames: mpsc::Receiver<CapturedFrame>,
    ) -> impl Iterator<Item = CapturedFrame> {
        InOrder {
            merge: self,
            frames,
            waiting: BTreeMap::new(),
            count: 0,
            written: Instant::from_ns(i64::MIN),
        }
    }

    /// Returns the instant up to which all frames have been sent to the channel: no later one will
    /// be earlier.
    fn passed(&self) -> Instant<Virtual> {
        let Some((progress, ends)) = &self.ends else {
            return Instant::FAR_FUTURE;
        };
        let both = ends.map(|end| progress.get(end));
        both[0].min(both[1])
    }
}

/// Sort key of a frame: its instant; true if frames of the other end precede it at that instant;
/// its number.
type Place = (Instant<Virtual>, bool, u64);

struct InOrder {
    merge: Merge,
    frames: mpsc::Receiver<CapturedFrame>,
    waiting: BTreeMap<Place, CapturedFrame>,
    count: u64,
    /// Latest instant of frames that may be written.
    written: Instant<Virtual>,
}

impl InOrder {
    fn put(&mut self, frame: CapturedFrame) {
        let is_later = self.merge.ends.is_some() && frame.port != self.merge.first;
        // Without two engines the frames are in order already.
        let at = match self.merge.ends {
            Some(_) => frame.at,
            None => Instant::ZERO,
        };
        self.waiting.insert((at, is_later, self.count), frame);
        self.count += 1;
    }
}

impl Iterator for InOrder {
    type Item = CapturedFrame;

    fn next(&mut self) -> Option<CapturedFrame> {
        loop {
            if let Some(first) = self.waiting.first_entry()
                && first.key().0 <= self.written
            {
                return Some(first.remove());
            }
            match self.frames.recv() {
                Ok(frame) => self.put(frame),
                // All engines have ended.
                Err(_) => return self.waiting.pop_first().map(|(_, frame)| frame),
            }
            // Read first: what was passed by then is in the channel.
            self.written = self.merge.passed();
            while let Ok(frame) = self.frames.try_recv() {
                self.put(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(port: u32, at: i64) -> CapturedFrame {
        CapturedFrame {
            port: PortId(port),
            at: Instant::from_ns(at),
            wall: Instant::ZERO,
            bytes: Vec::new(),
        }
    }

    #[test]
    fn frames_of_two_engines_are_merged_by_their_instants() {
        let progress = Progress::of(2);
        let merge = Merge {
            ends: Some((progress.clone(), [0, 1])),
            first: PortId(8),
        };
        let [one, other] = [0, 1].map(|here| progress.of_engine(here));
        let (send, frames) = mpsc::channel();
        let mut merged = merge.in_order(frames);
        let put = |port, at| send.send(frame(port, at)).unwrap();
        put(7, 10);
        put(7, 30);
        one(Instant::from_ns(30));
        put(8, 20);
        put(8, 30);
        put(8, 40);
        other(Instant::from_ns(30));
        let mut next = || merged.next().map(|frame| (frame.port.0, frame.at.as_ns()));
        let first = [(); 4].map(|()| next());
        let expected = [(7, 10), (8, 20), (8, 30), (7, 30)];
        assert_eq!(first, expected.map(Some));
        drop((one, other, send));
        assert_eq!((next(), next()), (Some((8, 40)), None));
    }
}
