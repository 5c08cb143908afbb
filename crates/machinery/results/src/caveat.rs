//! Reasons to doubt results, each with its remedy.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Reason why a run is not to be trusted, or was made in a degraded form. It includes a remedy,
/// which is a change that the user can make.
///
/// A caveat always has both parts, so every reason has a remedy. In a manifest it is one text,
/// `REASON To do: REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Caveat(String);

/// Action by which a user can avoid a [`Caveat`]: one or more sentences.
///
/// A remedy is constructed at compile time, where an empty text is an error:
///
/// ```
/// use timeloom_results::{Caveat, Remedy};
///
/// const LESS: Remedy = Remedy::new("Record fewer signals.");
/// let caveat = Caveat::new("The disk was too slow.", LESS);
/// assert_eq!(&*caveat, "The disk was too slow. To do: Record fewer signals.");
/// ```
///
/// ```compile_fail
/// const NONE: timeloom_results::Remedy = timeloom_results::Remedy::new("");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedy(&'static str);

impl Remedy {
    /// Remedy for a machine that did not keep up with a run whose clock does not wait.
    pub const SLOWER: Self = Self::new(
        "Let time wait for the machine (`time.mode = \"skip\"` with `time.compute = \"none\"`), \
         let it pass more slowly (a larger `time.dilation`), run less beside it, or use a machine \
         with more free processors.",
    );

    /// Remedy for TCP timers of a kernel over which virtual time has skipped.
    pub const NO_SKIPPING: Self = Self::new(
        "Run it in real time (`time.mode = \"virtual\"`), in which the kernel's timers count.",
    );

    /// Remedy for frames that were lost between the parts of a run.
    pub const LOST_BETWEEN_PARTS: Self = Self::new(
        "Raise the limits on socket buffers (sysctl net.core.rmem_max and wmem_max), send less \
         between the parts, or join them by a path that loses nothing.",
    );

    /// Returns a remedy with a non-empty text.
    ///
    /// # Panics
    ///
    /// Panics if `text` is empty: at compile time, in a constant.
    pub const fn new(text: &'static str) -> Self {
        assert!(!text.is_empty(), "a remedy says what to do");
        Self(text)
    }

    /// Returns the text of the remedy.
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl Caveat {
    /// Returns the caveat for `reason`, which is one or more whole sentences.
    pub fn new(reason: impl fmt::Display, remedy: Remedy) -> Self {
        Self(format!("{reason} To do: {}", remedy.0))
    }

    /// Returns this caveat prefixed with a part of the run: `PLACE: REASON To do: REMEDY`.
    #[must_use]
    pub fn within(&self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Deref for Caveat {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Caveat {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caveat_is_one_text_of_a_manifest() {
        let caveat = Caveat::new("It was late.", Remedy::SLOWER).within("On agent a");
        assert!(caveat.starts_with("On agent a: It was late. To do: Let time wait"));
        let json = serde_json::to_string(&caveat).expect("it is a text");
        assert!(json.starts_with('"'), "{json}");
        assert_eq!(
            serde_json::from_str::<Caveat>(&json).expect("it was one"),
            caveat
        );
        // Manifests of an earlier version contain reasons without remedies.
        let earlier: Caveat = serde_json::from_str("\"It was late.\"").expect("it is a text");
        assert_eq!(&*earlier, "It was late.");
    }
}
