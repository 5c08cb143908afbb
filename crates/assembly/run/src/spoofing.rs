//! Frames that lie about who sends them, noticed on links that are captured.
//!
//! Two lies are known: an ARP message that gives an address of the experiment to another
//! interface than its own, and, where no router lies between, an IPv4 packet with the
//! address of one station in a frame of another. Who only listens is not noticed.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use timeloom_time::{Duration, Instant, Virtual};

type Mac = [u8; 6];

/// Looks at the frames of one link.
#[derive(Debug)]
pub(crate) struct SpoofWatch {
    stations: HashMap<Mac, String>,
    owners: HashMap<Ipv4Addr, Mac>,
    /// Whether a station's packets come in its own frames everywhere.
    is_flat: bool,
    told: HashMap<(Lie, Ipv4Addr, Mac), Repetition>,
}

/// What was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spoofed {
    /// Whose interface sent it, where it is known.
    pub(crate) by: String,
    /// A sentence for people.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lie {
    Arp,
    Source,
}

#[derive(Debug)]
struct Repetition {
    /// Not told again before.
    quiet_until: Instant<Virtual>,
    /// Not told since.
    untold: u64,
}

impl SpoofWatch {
    /// `stations`: name, address and interface of each; `is_flat` where they share one
    /// network and no router lies between.
    pub(crate) fn new<'a>(
        stations: impl Iterator<Item = (&'a str, Ipv4Addr, Mac)>,
        is_flat: bool,
    ) -> Self {
        let mut watch = Self {
            stations: HashMap::new(),
            owners: HashMap::new(),
            is_flat,
            told: HashMap::new(),
        };
        for (name, address, mac) in stations {
            watch.stations.insert(mac, name.to_owned());
            watch.owners.insert(address, mac);
        }
        watch
    }

    /// Looks at a frame. A lie that goes on is told of once a second.
    pub(crate) fn look(&mut self, at: Instant<Virtual>, frame: &[u8]) -> Option<Spoofed> {
        let (lie, claimed, mac) = self.lie(frame)?;
        let told = self.told.entry((lie, claimed, mac)).or_insert(Repetition {
            quiet_until: at,
            untold: 0,
        });
        if at < told.quiet_until {
            told.untold += 1;
            return None;
        }
        told.quiet_until = at + EVERY;
        let before = std::mem::take(&mut told.untold);
        let name = |mac: &Mac| self.stations.get(mac).cloned();
        let by = name(&mac).unwrap_or_else(|| text_of(&mac));
        let owner = self.owners.get(&claimed).and_then(name).unwrap_or_default();
        let mut text = match lie {
            Lie::Arp => format!("{by} says by ARP that it has {claimed}, which is {owner}'s"),
            Lie::Source => format!("{by} sent a packet as {claimed}, which is {owner}'s"),
        };
        if before > 0 {
            text.push_str(&format!(", and {before} more since the last that was told"));
        }
        Some(Spoofed { by, text })
    }

    fn lie(&self, frame: &[u8]) -> Option<(Lie, Ipv4Addr, Mac)> {
        let sender: Mac = frame.get(6..12)?.try_into().ok()?;
        let (kind, body) = match frame.get(12..14)? {
            [0x81, 0x00] => (frame.get(16..18)?, frame.get(18..)?),
            kind => (kind, frame.get(14..)?),
        };
        let address = |from: usize| {
            let bytes: [u8; 4] = body.get(from..from + 4)?.try_into().ok()?;
            Some(Ipv4Addr::from(bytes))
        };
        let (lie, claimed, mac) = match kind {
            // Ethernet and IPv4, or it is another protocol's.
            [0x08, 0x06] if body.get(..6)? == [0, 1, 8, 0, 6, 4] => {
                let hardware: Mac = body.get(8..14)?.try_into().ok()?;
                (Lie::Arp, address(14)?, hardware)
            }
            [0x08, 0x00] if self.is_flat => (Lie::Source, address(12)?, sender),
            _ => return None,
        };
        let owner = self.owners.get(&claimed)?;
        (*owner != mac).then_some((lie, claimed, mac))
    }
}

fn text_of(mac: &Mac) -> String {
    let digits: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}

/// How often a lie that goes on is told, in virtual time.
const EVERY: Duration = Duration::from_s(1);

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];

    fn watch(is_flat: bool) -> SpoofWatch {
        let stations = [
            ("plc", Ipv4Addr::new(10, 0, 0, 1), A),
            ("bad", Ipv4Addr::new(10, 0, 0, 66), B),
        ];
        SpoofWatch::new(stations.into_iter(), is_flat)
    }

    fn arp(sender: Mac, claimed: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(sender);
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
        frame.extend(sender);
        frame.extend(claimed);
        frame.extend([0; 10]);
        frame
    }

    fn ip(sender: Mac, source: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(sender);
        frame.extend([0x08, 0x00]);
        frame.extend([0x45; 12]);
        frame.extend(source);
        frame.extend([10, 0, 0, 9]);
        frame
    }

    #[test]
    fn who_claims_the_address_of_another_is_named() {
        let mut watch = watch(true);
        let at = Instant::ZERO;
        assert_eq!(watch.look(at, &arp(A, [10, 0, 0, 1])), None);
        assert_eq!(watch.look(at, &ip(A, [10, 0, 0, 1])), None);
        assert_eq!(watch.look(at, &ip(B, [8, 8, 8, 8])), None, "nobody's here");
        let spoofed = watch.look(at, &arp(B, [10, 0, 0, 1])).expect("a lie");
        assert_eq!(spoofed.by, "bad");
        assert!(
            spoofed.text.contains("10.0.0.1, which is plc's"),
            "{spoofed:?}"
        );
        let spoofed = watch.look(at, &ip(B, [10, 0, 0, 1])).expect("a lie");
        assert!(spoofed.text.contains("sent a packet as"), "{spoofed:?}");
    }

    #[test]
    fn a_lie_that_goes_on_is_counted_and_told_once_a_second() {
        let mut watch = watch(true);
        let told: Vec<Spoofed> = (0..25)
            .filter_map(|tenth| {
                let at = Instant::ZERO + Duration::from_ms(100 * tenth);
                watch.look(at, &arp(B, [10, 0, 0, 1]))
            })
            .collect();
        assert_eq!(told.len(), 3);
        assert!(told[1].text.contains("9 more"), "{told:?}");
    }

    #[test]
    fn behind_a_router_only_arp_lies_and_no_bytes_panic() {
        let mut watch = watch(false);
        let at = Instant::ZERO;
        assert_eq!(watch.look(at, &ip(B, [10, 0, 0, 1])), None);
        let frame = arp(B, [10, 0, 0, 1]);
        for length in 0..frame.len() {
            let _ = watch.look(at, &frame[..length]);
        }
    }
}
