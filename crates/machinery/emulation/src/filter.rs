//! Filter rules for frames that pass a portal.

use crate::segment::V6_HEADER;

/// Rule of a filter. A field that is `None` matches every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// True if matching frames pass, false if they are dropped.
    pub pass: bool,
    /// Ethernet type: 0x0800 for IPv4, 0x86dd for IPv6.
    pub ethertype: Option<u16>,
    /// Protocol number in an IPv4 header, or in an IPv6 header without extension headers: 1, 6, 17
    /// and 58 for ICMP, TCP, UDP and ICMPv6.
    pub protocol: Option<u8>,
    /// TCP or UDP port, which matches the source or the destination port.
    pub port: Option<u16>,
}

/// List of rules. The first rule that matches a frame decides. A frame that matches no rule passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameFilter {
    /// The rules in order.
    pub rules: Vec<Rule>,
}

impl FrameFilter {
    /// Returns true if the frame passes. `frame` must have at least the frame's headers.
    pub fn passes(&self, frame: &[u8]) -> bool {
        let fits = |rule: &&Rule| rule.fits(frame);
        self.rules.iter().find(fits).is_none_or(|rule| rule.pass)
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    fn fits(&self, frame: &[u8]) -> bool {
        let word = |at: usize| {
            let bytes = frame.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let ethertype = word(12);
        if self.ethertype.is_some() && self.ethertype != ethertype {
            return false;
        }
        if self.protocol.is_none() && self.port.is_none() {
            return true;
        }
        let (protocol, at) = match ethertype {
            Some(IPV4) => {
                let Some(first) = frame.get(14) else {
                    return false;
                };
                (frame.get(23).copied(), 14 + usize::from(first & 15) * 4)
            }
            Some(IPV6) if frame.len() > 14 => (frame.get(20).copied(), 14 + V6_HEADER),
            _ => return false,
        };
        if self.protocol.is_some() && self.protocol != protocol {
            return false;
        }
        let Some(port) = self.port else { return true };
        // Only the first fragment of a packet has TCP or UDP ports.
        let is_later =
            ethertype == Some(IPV4) && word(20).is_none_or(|fragment| fragment & 0x1fff != 0);
        if is_later || !matches!(protocol, Some(6 | 17)) {
            return false;
        }
        word(at) == Some(port) || word(at + 2) == Some(port)
    }
}

/// Returns true if a frame reports the multicast groups to which its sender listens (MLD, RFC
/// 3810). Such a frame has hop-by-hop options followed by the report.
pub(crate) fn reports_groups(frame: &[u8]) -> bool {
    let hop_by_hop = 14 + V6_HEADER;
    let report = frame.get(hop_by_hop..).and_then(|options| {
        let length = (usize::from(*options.get(1)?) + 1) * 8;
        Some((options[0], *options.get(length)?))
    });
    frame.get(12..14) == Some(&IPV6.to_be_bytes())
        && frame.get(20) == Some(&0)
        && matches!(report, Some((58, 131 | 132 | 143)))
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(from: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[23] = 17;
        frame[34..36].copy_from_slice(&from.to_be_bytes());
        frame[36..38].copy_from_slice(&to.to_be_bytes());
        frame
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let pass_dns = Rule {
            pass: true,
            port: Some(53),
            ..Rule::default()
        };
        let block_udp = Rule {
            protocol: Some(17),
            ..Rule::default()
        };
        let filter = FrameFilter {
            rules: vec![pass_dns, block_udp],
        };
        assert!(filter.passes(&udp(53, 4_000)));
        assert!(filter.passes(&udp(4_000, 53)));
        assert!(!filter.passes(&udp(4_000, 54)));
        let mut tcp = udp(1, 2);
        tcp[23] = 6;
        assert!(filter.passes(&tcp));
        let mut later_fragment = udp(53, 53);
        later_fragment[21] = 1;
        assert!(!filter.passes(&later_fragment), "its ports are payload");
    }

    #[test]
    fn ipv6_is_told_by_protocol_and_port_too() {
        let mut frame = vec![0; 62];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        (frame[14], frame[20]) = (0x60, 17);
        frame[56..58].copy_from_slice(&53u16.to_be_bytes());
        let fits = |protocol, port| {
            let rule = Rule {
                protocol,
                port,
                ..Rule::default()
            };
            rule.fits(&frame)
        };
        assert!(fits(Some(17), Some(53)) && fits(None, Some(53)) && fits(Some(17), None));
        assert!(!fits(Some(6), None) && !fits(None, Some(54)));
    }

    #[test]
    fn reports_of_groups_are_known() {
        let mut frame = vec![0; 90];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        (frame[54], frame[62]) = (58, 143);
        assert!(reports_groups(&frame));
        for length in 0..62 {
            assert!(!reports_groups(&frame[..length]));
        }
        for (at, value) in [(20, 58), (54, 6), (62, 135), (13, 0)] {
            let mut other = frame.clone();
            other[at] = value;
            assert!(!reports_groups(&other), "byte {at}");
        }
    }

    #[test]
    fn short_frames_match_only_rules_without_conditions() {
        let everything = Rule::default();
        let port = Rule {
            port: Some(1),
            ..Rule::default()
        };
        let frame = udp(1, 1);
        for length in 0..frame.len() {
            assert!(everything.fits(&frame[..length]));
            assert!(!port.fits(&frame[..length.min(35)]));
        }
    }
}
