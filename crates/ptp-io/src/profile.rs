//! Profiles by the names that the command line knows.

use timeloom_ptp::Profile;

use crate::PtpError;

/// Every profile and its name.
pub const PROFILES: [(&str, Profile); 5] = [
    ("default", Profile::DEFAULT),
    ("p2p", Profile::DEFAULT_PEER_TO_PEER),
    ("61850-9-3", Profile::POWER_UTILITY),
    ("c37.238-2011", Profile::C37_238_2011),
    ("c37.238-2017", Profile::C37_238_2017),
];

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
