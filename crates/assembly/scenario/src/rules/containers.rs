//! Checks of containers: their programs must exist in the image, and must not have options that do
//! not apply there.

use std::fs::File;
use std::path::Path;

use timeloom_sys::account::UserName;
use timeloom_sys::rooted;

use super::{Rules, at};
use crate::bundle::{self, Bundle};
use crate::plan::{ContainerSpec, Program};

pub(super) fn check(rules: &mut Rules<'_>) {
    for (host, described) in &rules.plan.system.hosts {
        let Some(container) = &described.container else {
            continue;
        };
        let path = at(&[], ["system", "hosts", host, "container"]);
        if container.root.is_some() == container.bundle.is_some() {
            let message = "a container needs either a `root` or a `bundle`";
            rules.misplaced(&path, message, "give one of the two");
        }
        if described.machine.is_some() {
            let message = "a host cannot have both a virtual machine and a container";
            rules.misplaced(&path, message, "make it two hosts");
        }
        if rules.plan.placement.is_spread() {
            let message = "images are not sent to agents";
            rules.misplaced(
                &path,
                message,
                "run it on one machine, without `[placement]`",
            );
        }
        for (index, mount) in container.mounts.iter().enumerate() {
            let path = at(&path, ["mounts", &index.to_string(), "target"]);
            if !bundle::is_place_inside(&mount.target) && rules.was_read(&as_text(&path)) {
                let message = format!("`{}` is not an absolute path", mount.target.display());
                rules.broken(
                    &path,
                    message,
                    "write where it is in the container, without `..`",
                );
            }
        }
        for (index, program) in described.programs.iter().enumerate() {
            let path = at(
                &[],
                ["system", "hosts", host, "programs", &index.to_string()],
            );
            inside(rules, program, &path);
        }
    }
}

fn as_text(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Checks the options of a program that runs in a container.
fn inside(rules: &mut Rules<'_>, program: &Program, path: &[String]) {
    if !program.directory.is_absolute() && rules.part_was_read(path, "directory") {
        let message = format!(
            "`{}` is not an absolute path in the container",
            program.directory.display()
        );
        let help = "leave it out for `/`, or write one that begins with `/`";
        rules.broken(&at(path, ["directory"]), message, help);
    }
    if let Some(user) = &program.user
        && matches!(user.0, UserName::Named(_))
    {
        let message = format!("`{user}` is a name of this machine's, not of the container's");
        rules.broken(&at(path, ["user"]), message, "write `UID` or `UID:GID`");
    }
}

/// Checks that this machine has the images, and that the images have the programs.
pub(super) fn files(rules: &mut Rules<'_>) {
    for (host, described) in &rules.plan.system.hosts {
        let Some(container) = &described.container else {
            continue;
        };
        let path = at(&[], ["system", "hosts", host, "container"]);
        let Some(image) = image(rules, container, &path) else {
            continue;
        };
        for (index, mount) in container.mounts.iter().enumerate() {
            if !mount.source.exists() {
                let path = at(&path, ["mounts", &index.to_string(), "source"]);
                let message = format!("there is no {}", mount.source.display());
                rules.broken(&path, message, "it is relative to the scenario file");
            }
        }
        if let Some(own) = container.program(host, &image)
            && !is_there(&image, &own)
        {
            let message = format!("there is no program `{}` in the bundle", own.run[0]);
            let help = "`process.args` in its config.json names it";
            rules.broken(&at(&path, ["bundle"]), message, help);
        }
        for (index, program) in described.programs.iter().enumerate() {
            let parts = ["system", "hosts", host, "programs", &index.to_string()];
            let path = at(&[], parts);
            if !program.run.is_empty() && !is_there(&image, program) {
                let message = format!("there is no program `{}` in the container", program.run[0]);
                let help = "put it into the image, or mount it by `mounts`";
                rules.broken(&at(&path, ["run"]), message, help);
            }
        }
    }
}

/// Reads the content of a container. Reports a mistake and returns `None` if it is invalid.
fn image(rules: &mut Rules<'_>, container: &ContainerSpec, path: &[String]) -> Option<Bundle> {
    let key = if container.bundle.is_some() {
        "bundle"
    } else {
        "root"
    };
    if !rules.part_was_read(path, key) {
        return None;
    }
    let path = at(path, [key]);
    match container.image() {
        Err(fault) => rules.broken(&path, fault.message, fault.help),
        Ok(image) if image.root.is_dir() => return Some(image),
        Ok(image) => {
            let message = format!("there is no directory {}", image.root.display());
            let help = "it is relative to the scenario file; `docker export` or \
                        `umoci unpack` make one of an image";
            rules.broken(&path, message, help);
        }
    }
    None
}

/// Returns true if the image has the program. Mounted directories are not searched.
fn is_there(image: &Bundle, program: &Program) -> bool {
    let name = Path::new(&program.run[0]);
    let file = program.directory.join(name);
    let mounts = image.mounts.iter();
    if program.run[0].contains('/') && mounts.clone().any(|it| file.starts_with(&it.target)) {
        return true;
    }
    let path = program.env.get("PATH").map_or(rooted::PATH, String::as_str);
    let mounted = |entry: &Path| mounts.clone().any(|it| it.target.starts_with(entry));
    let is_mounted = std::env::split_paths(path).any(|entry| mounted(&entry));
    let top = File::open(&image.root);
    let found = |top| rooted::program(top, name, &program.directory, path).is_some();
    top.is_ok_and(found) || !program.run[0].contains('/') && is_mounted
}
