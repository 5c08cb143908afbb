//! Container on a host: a root directory in which the host's programs run.

use std::path::{Path, PathBuf};

use timeloom_time::Duration;

use crate::bundle::{Bundle, BundleFault};
use crate::plan::{Host, Program};
use crate::table::table;
use crate::words::{Ready, User};

table! {
/// Container of a host: its programs run in an image's root directory and have process IDs of their
/// own, like the containers of one pod. Changes to the image are kept in memory, and lost at the
/// end.
#[noun = "a container"]
pub struct ContainerSpec {
    /// Root directory of the image. Alternative to `bundle`.
    pub root: Option<PathBuf>,
    /// OCI bundle: directory with a `config.json`. Its process becomes the host's program
    /// `container-NAME`.
    pub bundle: Option<PathBuf>,
    /// Makes everything read-only except `/tmp`, `/run` and mounts. The configuration of a bundle
    /// may request this, too.
    pub read_only: bool = false,
    /// Files and directories of this machine that are visible to programs.
    pub mounts: Vec<ContainerMount> = Vec::new(),
    /// Readiness condition of the bundle's process, as for a program.
    pub ready: Option<Ready>,
    /// Maximum virtual time from the start of the bundle's process until it is ready.
    pub ready_timeout: Duration = Duration::from_s(10),
    /// If true, the run fails when the bundle's process ends before the end of the run.
    pub essential: bool = true,
}
}

table! {
/// File or directory of this machine that is mounted in a container.
#[noun = "a mount"]
#[derive(Eq)]
pub struct ContainerMount {
    /// Path on this machine. In a file it is relative to the scenario file; in a plan it is
    /// absolute.
    pub source: PathBuf,
    /// Absolute path in the container.
    #[read(|fields, key| fields.required::<String>(key).into())]
    pub target: PathBuf,
    /// Allows programs to write to the file or directory.
    pub writable: bool = false,
}
}

impl ContainerSpec {
    /// Returns the content of the container. It has a process only if it is a bundle.
    ///
    /// # Errors
    /// Fails if the bundle is invalid, or requests something that is not supported.
    pub fn image(&self) -> Result<Bundle, BundleFault> {
        let mut image = match &self.bundle {
            Some(bundle) => Bundle::read(bundle)?,
            None => Bundle::of_root(self.root.as_deref().unwrap_or(Path::new("/"))),
        };
        image.read_only |= self.read_only;
        if image.read_only {
            image.rooms.extend(["/tmp", "/run"].map(PathBuf::from));
        }
        image.mounts.extend(self.mounts.iter().cloned());
        Ok(image)
    }

    /// Returns the bundle's own process as a program of `host`; `None` if there is no such process.
    pub fn program(&self, host: &str, image: &Bundle) -> Option<Program> {
        let process = image.process.as_ref()?;
        Some(Program {
            name: Host::container_program(host),
            run: process.args.clone(),
            env: process.env.clone(),
            directory: process.cwd.clone(),
            user: Some(User(process.user.clone())),
            capabilities: Some(process.capabilities.clone()),
            ready: self.ready.clone(),
            ready_timeout: self.ready_timeout,
            essential: self.essential,
            ..Program::default()
        })
    }
}
