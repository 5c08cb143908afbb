//! Names of nodes.

use std::sync::Arc;

/// Name of a node in results that distinguish machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeName(Arc<str>);

impl NodeName {
    /// Returns the name of a node that has no peers.
    pub(crate) fn local() -> Self {
        Self::from("local")
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as it stands in rows of the results.
    pub(crate) fn to_row(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl From<&str> for NodeName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}
