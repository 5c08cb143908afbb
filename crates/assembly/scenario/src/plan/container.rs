//! A container on a host: the root directory in which the host's programs run.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::bundle::{Bundle, BundleFault};
use crate::plan::{Host, Program};
use crate::read::{Fields, Read};
use crate::words::{self, Ready, User};

/// A container: the programs of its host run in an image's root directory, with process
/// numbers of their own, as in the containers of one pod. What they write to the image is
/// kept in memory, and dropped at the end.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ContainerSpec {
    /// The image's root directory; or there is a `bundle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// An OCI bundle: a directory with `config.json`, whose process is a program of the host,
    /// `container-NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<PathBuf>,
    /// Whether nothing but `/tmp`, `/run` and what is mounted can be written to. A bundle's
    /// configuration may say so, too.
    #[schemars(default)]
    pub read_only: bool,
    /// Files and directories of this machine that programs see.
    #[schemars(default)]
    pub mounts: Vec<ContainerMount>,
    /// How one sees that the bundle's process can be used, as for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// How long it may take to become ready, in virtual time after its start.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "words::ten_seconds", with = "words::DurationText")]
    pub ready_timeout: Duration,
    /// Whether its end before the end of the run stops the run as failed.
    #[schemars(default = "words::yes")]
    pub essential: bool,
}

/// A file or directory of this machine inside a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ContainerMount {
    /// Where it is on this machine. In a file relative to the scenario file; in a plan
    /// absolute.
    pub source: PathBuf,
    /// Where it is in the container: an absolute path.
    pub target: PathBuf,
    /// Whether programs may write to it.
    #[schemars(default)]
    pub writable: bool,
}

impl ContainerSpec {
    /// What a container is made of, where its image is and what it runs by itself. A root
    /// directory runs nothing.
    ///
    /// # Errors
    /// A bundle that is none, or that asks for what is not given.
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

    /// The bundle's own process as a program of `host`, if there is one.
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
        // It says that the key is missing, where it is.
        let _: String = fields.required("source");
        Self {
            source: fields.directory("source"),
            target: target.into(),
            writable: fields.or_default("writable"),
        }
    }
}
