//! The layers, and what a folder says about them.

use std::path::Path;

/// A layer, lowest first. Its folder in `crates/` has its name in small letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The vocabulary: times, messages.
    Words,
    /// State machines without a socket, a file or a clock.
    Models,
    /// What touches the kernel, processes and hardware.
    Machinery,
    /// What puts it all together for a user.
    Assembly,
    /// What only shows that the rest is true: figures, experiments, this crate.
    Evidence,
}

impl Layer {
    /// All of them, lowest first.
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

    /// The layer of a package that lies in `folder`, relative to the
    /// workspace: `crates/LAYER/NAME`, no deeper and no higher.
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
