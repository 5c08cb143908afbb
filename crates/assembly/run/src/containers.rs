//! Containers of the hosts: each is a root directory in which the programs of its host run.
//!
//! This module decides which programs run inside a container: the programs of its host, and the
//! process that the bundle defines. A host's timeline daemon and the programs of an attack run
//! outside. `timeloom_guest::ContainerRoot` creates the root directories.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeloom_fabric::Fabric;
use timeloom_guest::{Bind, ContainerRoot, RootSpec};
use timeloom_results::{Caveat, Remedy};
use timeloom_scenario::{Bundle, Host, Plan, Program};
use timeloom_sys::rooted;

use crate::error::RunError;
use crate::names::{Directory, machines_hosts};
use crate::timelines::TimelineDaemon;

/// Containers of a plan, by host name.
#[derive(Default)]
pub(crate) struct Containers(BTreeMap<String, Container>);

/// One container.
struct Container {
    image: Bundle,
    /// Process that the bundle defines, if it is to be started.
    own: Option<Program>,
    /// Root directory; `None` until it has been created.
    root: Option<Arc<ContainerRoot>>,
}

impl Container {
    /// Returns the text of the image's `/etc/hosts`; empty if it has none.
    fn hosts_file(&self) -> String {
        let found = File::open(&self.image.root)
            .and_then(|top| rooted::find(&top, Path::new("/etc/hosts")));
        found.map_or(String::new(), |found| {
            let name = format!("/proc/self/fd/{}", found.as_raw_fd());
            machines_hosts(Path::new(&name))
        })
    }
}

impl Containers {
    /// Reads the definitions of the containers, without creating a root directory.
    ///
    /// # Errors
    /// Fails like `check` if a bundle has changed since the check.
    pub(crate) fn read(plan: &Plan) -> Result<Self, RunError> {
        let mut all = BTreeMap::new();
        for (name, host) in &plan.system.hosts {
            let Some(container) = &host.container else {
                continue;
            };
            let image = container.image().map_err(|fault| {
                RunError::Start(format!("host {name}: {}; {}", fault.message, fault.help))
            })?;
            let container = Container {
                own: container.program(name, &image),
                image,
                root: None,
            };
            all.insert(name.clone(), container);
        }
        Ok(Self(all))
    }

    /// Creates the root directories, each with the network and the timelines of its host.
    ///
    /// # Errors
    /// Returns the kernel's error as text.
    pub(crate) fn build(
        &mut self,
        fabric: &Fabric,
        keepers: &[TimelineDaemon],
        names: &Directory,
    ) -> Result<(), RunError> {
        for (name, container) in &mut self.0 {
            let Some(station) = fabric.station(name) else {
                continue;
            };
            let mounts = container.image.mounts.iter();
            let mounts = mounts.map(|mount| Bind {
                source: mount.source.clone(),
                target: mount.target.clone(),
                writable: mount.writable,
            });
            let timelines = keepers.iter().filter(|keeper| keeper.host == *name);
            let timelines = timelines.map(|keeper| Bind {
                source: keeper.directory.clone(),
                target: TIMELINES.into(),
                writable: false,
            });
            let root = ContainerRoot::new(&RootSpec {
                image: container.image.root.clone(),
                read_only: container.image.read_only,
                rooms: container.image.rooms.clone(),
                binds: mounts.chain(timelines).collect(),
                names: names.of_host(name, &container.hosts_file()),
                network: station.as_fd(),
            });
            let root = root.map_err(|error| RunError::Start(format!("host {name}: {error}")))?;
            container.root = Some(Arc::new(root));
        }
        Ok(())
    }

    /// Returns the root directories created so far, by host name.
    pub(crate) fn roots(&self) -> BTreeMap<String, Arc<ContainerRoot>> {
        let all = self.0.iter();
        all.filter_map(|(name, container)| Some((name.clone(), container.root.clone()?)))
            .collect()
    }

    /// Returns the processes that bundles define, each with the name of its host.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (&str, &Program)> {
        let all = self.0.iter();
        all.filter_map(|(name, container)| Some((name.as_str(), container.own.as_ref()?)))
    }

    /// Returns the root directory in which a program of `host` runs; `None` if the program runs
    /// outside of a container.
    pub(crate) fn root_of(
        &self,
        plan: &Plan,
        host: &str,
        program: &str,
    ) -> Option<Arc<ContainerRoot>> {
        let container = self.0.get(host)?;
        is_inside(plan, host, program).then(|| container.root.clone())?
    }

    /// Returns a caveat for each part of a bundle that the run ignores.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = Caveat> {
        let all = self.0.iter();
        let left_out = all.filter(|(_, container)| !container.image.left_out.is_empty());
        let left_out = left_out.map(|(name, container)| {
            let parts = container.image.left_out.join(", ");
            let reason =
                format!("These parts of the bundle of host {name} have no effect: {parts}.");
            Caveat::new(reason, NOT_OF_A_BUNDLE)
        });
        let own = self.0.iter().filter(|(_, container)| {
            let mut mounts = container.image.mounts.iter();
            mounts.any(|mount| Path::new("/etc/hosts").starts_with(&mount.target))
        });
        let own = own.map(|(name, _)| {
            let reason = format!(
                "Programs of host {name} find no other host by its name: a mount of its \
                 container lies over /etc/hosts."
            );
            Caveat::new(reason, WITHOUT_THE_MOUNT)
        });
        left_out.chain(own)
    }

    /// Returns the path, on this machine, of the executable of a program in a container; its
    /// content is hashed. Returns `None` for a file on one of the container's mounts, because the
    /// path within the image does not lead to that file.
    pub(crate) fn file_of(&self, host: &str, program: &Program) -> Option<PathBuf> {
        let root = &self.0.get(host)?.image.root;
        let top = File::open(root).ok()?;
        let path = program.env.get("PATH").map_or(rooted::PATH, String::as_str);
        let inside = rooted::program(&top, program.run[0].as_ref(), &program.directory, path)?;
        let found = rooted::find(&top, &inside).ok()?;
        std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()
    }
}

/// Returns true if a program of `host` runs in the host's container.
pub(crate) fn is_inside(plan: &Plan, host: &str, program: &str) -> bool {
    plan.system.hosts.get(host).is_some_and(|described| {
        let programs = described.programs.iter();
        let is_own = || programs.clone().any(|own| own.name == program);
        described.container.is_some() && (program == Host::container_program(host) || is_own())
    })
}

const NOT_OF_A_BUNDLE: Remedy = Remedy::new(
    "Remove them from the bundle's config.json if the experiment does not depend on them; else set \
     limits on the session's cgroup, and capabilities by the process that the container runs.",
);

/// Remedy for a container that covers `/etc` with a mount of its own, which hides the host names.
const WITHOUT_THE_MOUNT: Remedy = Remedy::new(
    "Remove the mount over /etc from the bundle's config.json, or name hosts by their addresses.",
);

/// Directory in which programs in a container find the timelines of their host.
pub(crate) const TIMELINES: &str = "/run/timelines";
