//! Profiles by the names that the command line knows.

use timeloom_ptp::{PROFILES, Profile};

use crate::PtpError;

/// The profile called `name`.
///
/// # Errors
/// With the names there are.
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
