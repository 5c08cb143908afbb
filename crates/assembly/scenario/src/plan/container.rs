//! Container on a host: a root directory in which the host's programs run.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::bundle::{Bundle, BundleFault};
use crate::plan::{Host, Program};
use crate::read::{Fields, Read};
use crate::words::{self, Ready, User};

/// Container of a host: its programs run in an image's root directory and have process IDs of their
/// own, like the containers of one pod. Changes to the image are kept in memory, and lost at the
/// end.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Root directory of the image. Alternative to `bundle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// OCI bundle: directory with a `config.json`. Its process becomes the host's program
    /// `container-NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<PathBuf>,
    /// Makes everything read-only except `/tmp`, `/run` and mounts. The configuration of a bundle
    /// may request this, too.
    #[schemars(default)]
    pub read_only: bool,
    /// Files and directories of this machine that are visible to programs.
    #[schemars(default)]
    pub mounts: Vec<ContainerMount>,
    /// Readiness condition of the bundle's process, as for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Maximum virtual time from the start of the bundle's process until it is ready.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::ten_seconds", with = "words::DurationText")]
    pub ready_timeout: Duration,
    /// If true, the run fails when the bundle's process ends before the end of the run.
    #[schemars(default = "words::yes")]
    pub essential: bool,
}

/// File or directory of this machine that is mounted in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ContainerMount {
    /// Path on this machine. In a file it is relative to the scenario file; in a plan it is
    /// absolute.
    pub source: PathBuf,
    /// Absolute path in the container.
    pub target: PathBuf,
    /// Allows programs to write to the file or directory.
    #[schemars(default)]
    pub writable: bool,
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

impl Default for ContainerSpec {
    fn default() -> Self {
        Self {
            root: None,
            bundle: None,
            read_only: false,
            mounts: Vec::new(),
            ready: None,
            ready_timeout: words::ten_seconds(),
            essential: true,
        }
    }
}

impl Read for ContainerSpec {
    const NOUN: &'static str = "a container";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            root: fields.path("root"),
            bundle: fields.path("bundle"),
            read_only: fields.or_default("read_only"),
            mounts: fields.or_default("mounts"),
            ready: fields.optional("ready"),
            ready_timeout: fields.or("ready_timeout", words::ten_seconds()),
            essential: fields.or("essential", true),
        }
    }
}

impl Read for ContainerMount {
    const NOUN: &'static str = "a mount";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        let target: String = fields.required("target");
        // Reading the key reports it at the right position if it is missing.
        let _: String = fields.required("source");
        Self {
            source: fields.directory("source"),
            target: target.into(),
            writable: fields.or_default("writable"),
        }
    }
}
