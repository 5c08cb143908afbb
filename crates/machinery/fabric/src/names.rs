//! Interface names that the kernel accepts, and generated MAC addresses. Both depend on the
//! description alone, so that two runs have the same names and addresses.

use std::collections::HashSet;

use timeloom_wire::MacAddress;

/// Returns the locally administered unicast address for `name`: the byte `02` and 40 bits of the
/// name's FNV-1a hash. `attempt` is 0 unless the addresses of two names collide, which is rare.
pub(crate) fn mac_of_name(name: &str, attempt: u32) -> MacAddress {
    let hash = hash(name, attempt).to_be_bytes();
    MacAddress([0x02, hash[0], hash[1], hash[2], hash[3], hash[4]])
}

/// Generator of interface names that are unique in the fabric namespace.
pub(crate) struct InterfaceNames {
    taken: HashSet<String>,
}

impl InterfaceNames {
    pub(crate) fn new() -> Self {
        // `lo` exists in every namespace, `all` and `default` would collide with directories under
        // /proc/sys/net, and the kernel forbids `.` and `..`.
        let reserved = ["lo", "all", "default", ".", ".."];
        Self {
            taken: reserved.map(str::to_owned).into(),
        }
    }

    /// Returns `wanted` if no other interface has this name and it is short enough. Otherwise
    /// returns its first eight characters, `~` and six digits of its hash.
    pub(crate) fn pick(&mut self, wanted: &str) -> String {
        if wanted.len() <= MAX_INTERFACE_NAME && self.taken.insert(wanted.to_owned()) {
            return wanted.to_owned();
        }
        let start = &wanted[..wanted.len().min(8)];
        (0..)
            .map(|attempt| format!("{start}~{:06x}", hash(wanted, attempt) >> 40))
            .find(|name| self.taken.insert(name.clone()))
            .expect("2^32 attempts")
    }
}

/// Returns true if `name` is a valid node name. Names are ASCII, so that they can be cut at any
/// byte. They have no `%`, which the kernel expands in interface names.
pub(crate) fn is_node_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    !name.is_empty() && name.bytes().all(fits)
}

/// Computes an FNV-1a hash, which is short, stable, and good enough to distribute names.
fn hash(name: &str, attempt: u32) -> u64 {
    let salt = if attempt == 0 {
        Vec::new()
    } else {
        attempt.to_le_bytes().to_vec()
    };
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mixed = name.bytes().chain(salt).fold(0xcbf2_9ce4_8422_2325, step);
    // The high bits of FNV-1a are weak for names that differ in their last letter only, and only
    // the high bits are used.
    (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Maximum length of an interface name: the kernel's IFNAMSIZ without the terminating zero.
const MAX_INTERFACE_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_stay_and_long_ones_are_stable() {
        let mut names = InterfaceNames::new();
        assert_eq!(names.pick("s1-plc"), "s1-plc");
        let long = names.pick("substation-west-relay-7");
        assert_eq!(long.len(), MAX_INTERFACE_NAME);
        assert!(long.starts_with("substati~"), "{long}");
        assert_eq!(InterfaceNames::new().pick("substation-west-relay-7"), long);
        assert_ne!(names.pick("substation-west-relay-8"), long);
        assert_ne!(names.pick("lo"), "lo");
        assert_ne!(
            names.pick("s1-plc"),
            "s1-plc",
            "a switch may be called like a port"
        );
    }

    #[test]
    fn macs_are_local_unicast_and_differ() {
        let macs: HashSet<_> = (0..10_000)
            .map(|i| mac_of_name(&format!("h{i}"), 0))
            .collect();
        assert_eq!(macs.len(), 10_000);
        assert!(macs.iter().all(|mac| mac.is_unicast() && mac.0[0] == 2));
    }
}
