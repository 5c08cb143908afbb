//! Detection of frames with forged senders on captured links.
//!
//! Two kinds of forgery are detected. The first is an ARP or neighbour discovery message that
//! claims an IP address of the experiment for a hardware address other than its owner's. The second
//! is an IP packet whose source address belongs to one station, in a frame from another; it is
//! detected only if no router lies between. Passive listeners are not detected.

use std::collections::HashMap;
use std::net::IpAddr;

use timeloom_time::{Duration, Instant, Virtual};

type Mac = [u8; 6];

/// Detector for the frames of one link.
#[derive(Debug)]
pub(crate) struct SpoofWatch {
    stations: HashMap<Mac, String>,
    owners: HashMap<IpAddr, Mac>,
    /// True if no router lies between the stations, so that each station's packets come in frames
    /// with its own hardware address.
    is_flat: bool,
    told: HashMap<(Spoofing, IpAddr, Mac), Repetition>,
}

/// A detected forgery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spoofed {
    /// Name of the sending station, or its hardware address if the station is unknown.
    pub(crate) by: String,
    /// Description of the forgery, as a sentence for the user.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spoofing {
    Arp,
    Neighbour,
    Source,
}

#[derive(Debug)]
struct Repetition {
    /// Virtual instant before which repetitions are only counted.
    quiet_until: Instant<Virtual>,
    /// Number of repetitions since the last report.
    untold: u64,
}

impl SpoofWatch {
    /// Creates the detector. `stations` gives the name, IP address and hardware address of each
    /// station. `is_flat` is true if no router lies between them.
    pub(crate) fn new<'a>(
        stations: impl Iterator<Item = (&'a str, IpAddr, Mac)>,
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

    /// Checks a frame that passed at `at`. A forgery that continues is reported once per second.
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
            Spoofing::Arp => format!("{by} claims by ARP to have {claimed}, which is {owner}'s"),
            Spoofing::Neighbour => {
                format!("{by} claims to its neighbours to have {claimed}, which is {owner}'s")
            }
            Spoofing::Source => format!("{by} sent a packet as {claimed}, which is {owner}'s"),
        };
        if before > 0 {
            text.push_str(&format!(", and {before} more since the last report"));
        }
        Some(Spoofed { by, text })
    }

    fn lie(&self, frame: &[u8]) -> Option<(Spoofing, IpAddr, Mac)> {
        let sender: Mac = frame.get(6..12)?.try_into().ok()?;
        let (kind, body) = match frame.get(12..14)? {
            [0x81, 0x00] => (frame.get(16..18)?, frame.get(18..)?),
            kind => (kind, frame.get(14..)?),
        };
        let address = |from: usize| {
            let bytes: [u8; 4] = body.get(from..from + 4)?.try_into().ok()?;
            Some(IpAddr::from(bytes))
        };
        let long_address = |from: usize| {
            let bytes: [u8; 16] = body.get(from..from + 16)?.try_into().ok()?;
            Some(IpAddr::from(bytes))
        };
        let (lie, claimed, mac) = match kind {
            // ARP for Ethernet and IPv4; other values belong to other protocols.
            [0x08, 0x06] if body.get(..6)? == [0, 1, 8, 0, 6, 4] => {
                let hardware: Mac = body.get(8..14)?.try_into().ok()?;
                (Spoofing::Arp, address(14)?, hardware)
            }
            [0x08, 0x00] if self.is_flat => (Spoofing::Source, address(12)?, sender),
            [0x86, 0xdd] => match told_of_neighbour(body) {
                Some((from, hardware)) => (Spoofing::Neighbour, long_address(from)?, hardware),
                None if self.is_flat => (Spoofing::Source, long_address(8)?, sender),
                None => return None,
            },
            _ => return None,
        };
        let owner = self.owners.get(&claimed)?;
        (*owner != mac).then_some((lie, claimed, mac))
    }
}

/// Returns the IP address that a neighbour discovery message announces, as an offset in the packet,
/// and the announced hardware address (RFC 4861, sections 4.3 and 4.4).
fn told_of_neighbour(packet: &[u8]) -> Option<(usize, Mac)> {
    const ICMPV6: u8 = 58;
    let is_icmp = packet.get(6) == Some(&ICMPV6);
    let (address, wanted) = match packet.get(40).filter(|_| is_icmp)? {
        135 => (8, 1),  // solicitation: IP source, source link-layer option
        136 => (48, 2), // advertisement: target, target link-layer option
        _ => return None,
    };
    let mut options = packet.get(64..)?;
    loop {
        let (kind, words) = (*options.first()?, usize::from(*options.get(1)?));
        if kind == wanted {
            return Some((address, options.get(2..8)?.try_into().ok()?));
        }
        options = options.get(words.max(1) * 8..)?;
    }
}

fn text_of(mac: &Mac) -> String {
    let digits: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}

/// Interval between reports of a forgery that continues, in virtual time.
const EVERY: Duration = Duration::from_s(1);

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = [2, 0, 0, 0, 0, 1];
    const B: Mac = [2, 0, 0, 0, 0, 2];

    fn watch(is_flat: bool) -> SpoofWatch {
        let stations = [
            ("plc", IpAddr::from([10, 0, 0, 1]), A),
            ("bad", IpAddr::from([10, 0, 0, 66]), B),
            ("plc", "fd00::1".parse().expect("an address"), A),
            ("bad", "fd00::66".parse().expect("an address"), B),
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
    fn a_sender_with_the_address_of_another_is_named() {
        let mut watch = watch(true);
        let at = Instant::ZERO;
        assert_eq!(watch.look(at, &arp(A, [10, 0, 0, 1])), None);
        assert_eq!(watch.look(at, &ip(A, [10, 0, 0, 1])), None);
        assert_eq!(
            watch.look(at, &ip(B, [8, 8, 8, 8])),
            None,
            "an address of no host"
        );
        let spoofed = watch.look(at, &arp(B, [10, 0, 0, 1])).expect("a lie");
        assert_eq!(spoofed.by, "bad");
        assert!(
            spoofed.text.contains("10.0.0.1, which is plc's"),
            "{spoofed:?}"
        );
        let spoofed = watch.look(at, &ip(B, [10, 0, 0, 1])).expect("a lie");
        assert!(spoofed.text.contains("sent a packet as"), "{spoofed:?}");
    }

    /// Returns a neighbour advertisement that claims the address `fd00::last` for `mac`.
    fn advertisement(mac: Mac, last: u8) -> Vec<u8> {
        let own = |last| [&[0xfd][..], &[0; 14], &[last]].concat();
        let mut frame = [&[0xff; 6][..], &mac, &[0x86, 0xdd]].concat();
        frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
        frame.extend([own(last), own(9)].concat());
        frame.extend([136, 0, 0, 0, 0x60, 0, 0, 0]);
        frame.extend(own(last));
        frame.extend([2, 1]);
        frame.extend(mac);
        frame
    }

    #[test]
    fn a_sender_with_the_ipv6_address_of_another_is_named() {
        let mut watch = watch(true);
        let at = Instant::ZERO;
        assert_eq!(watch.look(at, &advertisement(A, 1)), None);
        assert_eq!(
            watch.look(at, &advertisement(B, 8)),
            None,
            "an address of no host"
        );
        let spoofed = watch.look(at, &advertisement(B, 1)).expect("a lie");
        assert_eq!(spoofed.by, "bad");
        assert!(
            spoofed.text.contains("fd00::1, which is plc's"),
            "{spoofed:?}"
        );
        let mut datagram = advertisement(B, 1);
        datagram[20] = 17;
        let spoofed = watch.look(at, &datagram).expect("a lie");
        assert!(
            spoofed.text.contains("sent a packet as fd00::1"),
            "{spoofed:?}"
        );
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
    fn behind_a_router_only_neighbours_lie_and_no_bytes_panic() {
        let mut watch = watch(false);
        let at = Instant::ZERO;
        assert_eq!(watch.look(at, &ip(B, [10, 0, 0, 1])), None);
        for frame in [arp(B, [10, 0, 0, 1]), advertisement(B, 1)] {
            for length in 0..frame.len() {
                let _ = watch.look(at, &frame[..length]);
            }
        }
    }
}
