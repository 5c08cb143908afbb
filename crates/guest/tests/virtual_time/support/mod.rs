//! What the tests share: building programs, running them natively and in a
//! session, and comparing what they print.

mod build;
mod differential;
pub(crate) mod languages;
mod lines;
mod world;

pub(crate) use build::{built, c_program, c_program_static, must_run, source};
pub(crate) use differential::{Differential, check, natively};
pub(crate) use lines::{Line, Lines};
pub(crate) use world::{Program, World};

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long anything may take before a test gives up on it. Far more than any
/// case needs, for machines that are busy with something else.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A name that no other test, and no other run of the tests, uses.
pub(crate) fn unique(theme: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "test-{}-{}-{theme}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A directory that is removed with its contents when dropped. Everybody may
/// enter it: some programs run as another user.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(theme: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("timeloom-{}", unique(theme)));
        std::fs::create_dir(&path).expect("a new directory in the temporary one");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("our own directory");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
