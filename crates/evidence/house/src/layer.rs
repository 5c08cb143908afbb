//! The layers, and their folders.

use std::path::Path;

/// A layer, lowest first. Its folder in `crates/` has its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The vocabulary: times, messages.
    Words,
    /// State machines without a socket, a file or a clock.
    Models,
    /// Access to the kernel, processes and hardware.
    Machinery,
    /// Assembly of the parts into programs for users.
    Assembly,
    /// Evidence for the rest: figures, experiments, this crate.
    Evidence,
}

impl Layer {
    /// All layers, lowest first.
    pub const ALL: [Self; 5] = [
        Self::Words,
        Self::Models,
        Self::Machinery,
        Self::Assembly,
        Self::Evidence,
    ];

    /// The folder's name.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Models => "models",
            Self::Machinery => "machinery",
            Self::Assembly => "assembly",
            Self::Evidence => "evidence",
        }
    }

    /// Returns the layer of a package in `folder`, relative to the workspace: exactly
    /// `crates/LAYER/NAME`.
    pub fn of(folder: &Path) -> Option<Self> {
        let parts: Vec<_> = folder.iter().collect();
        let [crates, layer, _name] = parts[..] else {
            return None;
        };
        let known = Self::ALL.into_iter().find(|known| known.folder() == layer);
        known.filter(|_| crates == "crates")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_layer() {
        let of = |folder| Layer::of(Path::new(folder));
        assert_eq!(of("crates/models/net"), Some(Layer::Models));
        assert_eq!(of("crates/net"), None);
        assert_eq!(of("crates/models/net/deep"), None);
        assert_eq!(of("tools/models/net"), None);
        assert_eq!(of("crates/attic/net"), None);
        assert!(Layer::ALL.is_sorted());
    }
}
