//! Names of PTP profiles on the command line.

use timeloom_ptp::{PROFILES, Profile};

use crate::PtpError;

/// Returns the profile called `name`.
///
/// # Errors
/// Fails with a list of the valid names.
pub fn profile_named(name: &str) -> Result<Profile, PtpError> {
    PROFILES
        .iter()
        .find(|(of, _)| *of == name)
        .map(|(_, profile)| *profile)
        .ok_or_else(|| {
            let names: Vec<&str> = PROFILES.iter().map(|(of, _)| *of).collect();
            PtpError::usage(format!(
                "there is no profile `{name}`; there are {}",
                names.join(", ")
            ))
        })
}
