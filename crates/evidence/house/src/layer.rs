//! Layers of the workspace, and their folders.

use std::path::Path;

/// A layer of the workspace, lowest first. Its folder in `crates/` has the layer's name in lower
/// case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Basic types: times and messages.
    Words,
    /// State machines that use no socket, no file and no clock.
    Models,
    /// Access to the kernel, processes and hardware.
    Machinery,
    /// Programs for users, assembled from the lower layers.
    Assembly,
    /// Evidence that the rest is correct and fast: figures, experiments, this crate.
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

    /// Returns the name of the layer's folder.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Models => "models",
            Self::Machinery => "machinery",
            Self::Assembly => "assembly",
            Self::Evidence => "evidence",
        }
    }

    /// Returns the layer of a package whose folder, relative to the workspace, is
    /// `crates/LAYER/NAME`; `None` for other folders.
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
