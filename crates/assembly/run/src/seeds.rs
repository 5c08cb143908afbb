//! Seeds of programs and plants. Each is derived from the scenario's seed and a name.

use timeloom_results::sha256_hex;
use timeloom_scenario::Plan;

/// Returns name and value of the seed variable for the program or plant that the results call
/// `name`. A value that the scenario sets takes precedence.
pub(crate) fn variable(plan: &Plan, name: &str) -> (&'static str, String) {
    ("TIMELOOM_SEED", of(plan.seed, name).to_string())
}

/// Returns the first 32 bits of SHA-256 of the text `timeloom-seed SEED NAME`. The seed of a
/// program does not depend on other programs, and 32 bits suit every random number generator.
fn of(seed: u64, name: &str) -> u32 {
    let digest = sha256_hex(format!("timeloom-seed {seed} {name}").as_bytes());
    u32::from_str_radix(&digest[..8], 16).expect("eight hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value is documented for users, and must not change.
    #[test]
    fn a_seed_is_derived_from_the_scenario_s_and_the_name() {
        // printf 'timeloom-seed 7 sensor' | sha256sum
        assert_eq!(of(7, "sensor"), SENSOR);
        assert_ne!(of(7, "sensor"), of(8, "sensor"));
        assert_ne!(of(7, "sensor"), of(7, "sensor-2"));
    }

    const SENSOR: u32 = 0x7cd2_c181;
}
