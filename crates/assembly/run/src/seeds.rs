//! Seeds of programs and plants: each has its own, derived from the scenario's.

use timeloom_results::sha256_hex;
use timeloom_scenario::Plan;

/// The variable that has it, and its value for the program or plant that is called `name` in the
/// results. One that the scenario sets itself is left alone.
pub(crate) fn variable(plan: &Plan, name: &str) -> (&'static str, String) {
    ("TIMELOOM_SEED", of(plan.seed, name).to_string())
}

/// The first 32 bits of SHA-256 of the text `timeloom-seed SEED NAME`: programs that are added or
/// renamed change no other's seed, and every generator of random numbers takes as many bits.
fn of(seed: u64, name: &str) -> u32 {
    let digest = sha256_hex(format!("timeloom-seed {seed} {name}").as_bytes());
    u32::from_str_radix(&digest[..8], 16).expect("eight hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written in the documentation, so that it may not change.
    #[test]
    fn a_seed_is_derived_from_the_scenario_s_and_the_name() {
        // printf 'timeloom-seed 7 sensor' | sha256sum
        assert_eq!(of(7, "sensor"), SENSOR);
        assert_ne!(of(7, "sensor"), of(8, "sensor"));
        assert_ne!(of(7, "sensor"), of(7, "sensor-2"));
    }

    const SENSOR: u32 = 0x7cd2_c181;
}
