//! OCI bundles: directories with a root file system, and with a `config.json` that describes a
//! process.
//!
//! Those parts of the configuration are supported that apply to a host of an experiment: the
//! process with its arguments, variables, directory, user and capabilities; the root; and mounts of
//! files and memory. A configuration is refused if it reaches beyond the host: by namespaces of
//! other processes, user namespaces, hooks, or paths outside of the bundle's directory. A bundle
//! may come from an untrusted source; only the scenario decides which files of this machine are
//! visible. Resource limits, system call filters, masks, and privileges with which root can escape
//! from a container are ignored, and listed in [`Bundle::left_out`]. (OCI runtime specification
//! 1.2, config.md and config-linux.md.)

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use timeloom_sys::account::UserName;
use timeloom_sys::plain;

use crate::plan::ContainerMount;
use crate::words::CapabilityName;

/// Content of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Root directory.
    pub root: PathBuf,
    /// True if programs cannot write to the root directory.
    pub read_only: bool,
    /// Files and directories of this machine that are mounted in the container.
    pub mounts: Vec<ContainerMount>,
    /// Paths of the writable memory file systems (tmpfs) in the container.
    pub rooms: Vec<PathBuf>,
    /// Process that the bundle itself defines; `None` if it defines none.
    pub process: Option<BundleProcess>,
    /// Parts of the configuration that are ignored, as texts for users.
    pub left_out: Vec<String>,
}

/// Process of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleProcess {
    /// Program and arguments.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Working directory in the container.
    pub cwd: PathBuf,
    /// User and group, as numbers.
    pub user: UserName,
    /// Capabilities of the process; it has no others.
    pub capabilities: Vec<CapabilityName>,
}

/// Reason why a directory cannot be used as a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFault {
    /// Error message.
    pub message: String,
    /// Suggested fix.
    pub help: String,
}

fn fault<T>(message: impl Into<String>, help: &str) -> Result<T, BundleFault> {
    Err(BundleFault {
        message: message.into(),
        help: help.to_owned(),
    })
}

impl Bundle {
    /// Returns a bundle that consists of an image's root directory and has no configuration.
    pub fn of_root(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            read_only: false,
            mounts: Vec::new(),
            rooms: Vec::new(),
            process: None,
            left_out: Vec::new(),
        }
    }

    /// Reads the bundle in a directory.
    ///
    /// # Errors
    /// Returns an error with a message and a suggested fix if the bundle cannot be used.
    pub fn read(directory: &Path) -> Result<Self, BundleFault> {
        let file = directory.join("config.json");
        let help = "a bundle is a directory with `config.json` and its root, as `umoci unpack` \
                    and `crun spec` make them";
        let bundle = match plain::read(&file, MOST_BYTES) {
            Ok(bytes) => Self::parse(&bytes, directory)?,
            Err(error) => return fault(format!("{}: {error}", file.display()), help),
        };
        // Symbolic links must not lead outside of the bundle either. A missing path is reported
        // later.
        let real = |path: &Path| path.canonicalize().ok();
        let top = real(directory);
        let leaves = |path: &Path| match (real(path), &top) {
            (Some(path), Some(top)) => !path.starts_with(top),
            _ => false,
        };
        if leaves(&bundle.root) {
            return outside("root", &bundle.root);
        }
        let mut sources = bundle.mounts.iter().map(|mount| &mount.source);
        match sources.find(|source| leaves(source)) {
            Some(source) => outside("mount", source),
            None => Ok(bundle),
        }
    }

    /// Parses `config.json`; paths in it are relative to `directory`.
    ///
    /// # Errors
    /// Fails like [`Self::read`].
    pub fn parse(bytes: &[u8], directory: &Path) -> Result<Self, BundleFault> {
        let config: Config = match serde_json::from_slice(bytes) {
            Ok(config) => config,
            Err(error) => {
                let help = "it is described by the OCI runtime specification";
                return fault(
                    format!(
                        "config.json does not describe a bundle: {}",
                        unquoted(&error)
                    ),
                    help,
                );
            }
        };
        if config.hooks.values().any(|hooks| !hooks.is_empty()) {
            let help = "take `hooks` out: they are a runtime's, and there is none here";
            return fault("the bundle has hooks, which would not be executed", help);
        }
        for namespace in &config.linux.namespaces {
            match (namespace.kind.as_str(), &namespace.path) {
                ("network", Some(path)) => {
                    let help = "take the `path` out: its network is that of the host";
                    return fault(format!("the bundle has its own network, {path}"), help);
                }
                ("user", _) => {
                    let help = "take the namespace `user` out, and give `process.user` numbers \
                                of this machine";
                    return fault("the bundle has users of its own", help);
                }
                (kind, Some(path)) => {
                    let help = "take the `path` out: a host shares nothing with others";
                    return fault(
                        format!("the bundle joins the {kind} namespace {path}"),
                        help,
                    );
                }
                _ => {}
            }
        }
        let mut bundle = Self::of_root(&within(directory, "root", &config.root.path)?);
        bundle.read_only = config.root.readonly;
        for mount in &config.mounts {
            bundle.mount(mount, directory)?;
        }
        let left_out = [
            ("resources", config.linux.resources.is_some()),
            ("seccomp", config.linux.seccomp.is_some()),
            ("rlimits", !config.process.rlimits.is_empty()),
        ];
        let left_out = left_out.into_iter().filter(|(_, there)| *there);
        bundle.left_out = left_out.map(|(name, _)| name.to_owned()).collect();
        let mut process = config.process.read()?;
        let usual = |name: &CapabilityName| CONTAINER_CAPABILITIES.contains(&&*name.to_string());
        let (granted, others) = process.capabilities.into_iter().partition(usual);
        process.capabilities = granted;
        let others: Vec<CapabilityName> = others;
        let others = others.iter().map(|name| format!("capability {name}"));
        bundle.left_out.extend(others);
        bundle.process = Some(process);
        Ok(bundle)
    }

    fn mount(&mut self, mount: &Mount, directory: &Path) -> Result<(), BundleFault> {
        let target = &mount.destination;
        if !is_place_inside(target) {
            let message = format!(
                "the target `{}` of a mount is not an absolute path",
                target.display()
            );
            return fault(message, "write one that begins with `/`, without `..`");
        }
        let is_bind = |option: &String| option == "bind" || option == "rbind";
        let kind = match mount.options.iter().any(is_bind) {
            true => "bind",
            false => mount.kind.as_deref().unwrap_or("none"),
        };
        match (kind, &mount.source) {
            ("bind", Some(source)) => self.mounts.push(ContainerMount {
                source: within(directory, "mount", source)?,
                target: target.clone(),
                writable: !mount.options.iter().any(|option| option == "ro"),
            }),
            // Every container has these mounts anyway.
            ("tmpfs", _) if target.starts_with("/dev") => {}
            ("proc" | "sysfs" | "devpts" | "mqueue" | "cgroup" | "cgroup2", _) => {}
            ("tmpfs", _) => self.rooms.push(target.clone()),
            (kind, _) => {
                let message = format!("the mount `{}` is of type `{kind}`", target.display());
                return fault(message, "only `bind` and `tmpfs` are mounted; take it out");
            }
        }
        Ok(())
    }
}

/// Returns true if a container may have a mount at this path.
pub(crate) fn is_place_inside(target: &Path) -> bool {
    let mut parts = target.components();
    let begins = parts.next() == Some(Component::RootDir);
    let is_name = |part| matches!(part, Component::Normal(_));
    begins && parts.clone().next().is_some() && parts.all(is_name)
}

/// Resolves a path of the configuration. Fails if the path is outside of the bundle.
fn within(directory: &Path, what: &str, path: &Path) -> Result<PathBuf, BundleFault> {
    let whole = directory.join(path);
    let inside = whole.strip_prefix(directory).ok();
    let is_inside = |rest: &Path| !rest.components().any(|part| part == Component::ParentDir);
    match inside.is_some_and(is_inside) {
        true => Ok(whole),
        false => outside(what, path),
    }
}

fn outside<T>(what: &str, path: &Path) -> Result<T, BundleFault> {
    let message = format!("the {what} `{}` lies outside of the bundle", path.display());
    let help = "move it into the bundle's directory; what else of this machine programs are to \
                see, name by `mounts` in the scenario";
    fault(message, help)
}

/// Default capabilities of root in a container. They are those that container runtimes grant,
/// without the right to create devices (`mknod`).
pub const CONTAINER_CAPABILITIES: [&str; 13] = [
    "audit_write",
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "net_bind_service",
    "net_raw",
    "setfcap",
    "setgid",
    "setpcap",
    "setuid",
    "sys_chroot",
];

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    process: Process,
    root: Root,
    #[serde(default)]
    mounts: Vec<Mount>,
    #[serde(default)]
    hooks: BTreeMap<String, Vec<serde_json::Value>>,
    #[serde(default)]
    linux: Linux,
}

#[derive(Deserialize)]
struct Root {
    path: PathBuf,
    #[serde(default)]
    readonly: bool,
}

#[derive(Deserialize)]
struct Mount {
    destination: PathBuf,
    #[serde(rename = "type")]
    kind: Option<String>,
    source: Option<PathBuf>,
    #[serde(default)]
    options: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Linux {
    #[serde(default)]
    namespaces: Vec<Namespace>,
    resources: Option<serde_json::Value>,
    seccomp: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: String,
    path: Option<String>,
}

#[derive(Default, Deserialize)]
struct Process {
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    user: Numbers,
    #[serde(default)]
    capabilities: Capabilities,
    #[serde(default)]
    rlimits: Vec<serde_json::Value>,
}

#[derive(Default, Deserialize)]
struct Numbers {
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    effective: Vec<String>,
}

impl Process {
    fn read(self) -> Result<BundleProcess, BundleFault> {
        if self.args.first().is_none_or(String::is_empty) {
            return fault(
                "the bundle runs nothing",
                "give `process.args` in config.json",
            );
        }
        let cwd = self.cwd.unwrap_or_else(|| "/".into());
        if !cwd.is_absolute() {
            let message = format!("`process.cwd` is not an absolute path: {}", cwd.display());
            return fault(message, "write one that begins with `/`");
        }
        let mut env = BTreeMap::new();
        for variable in self.env {
            match variable.split_once('=') {
                Some((name, value)) if !name.is_empty() && !variable.contains('\0') => {
                    env.insert(name.to_owned(), value.to_owned());
                }
                _ => return fault(format!("`{variable}` is no variable"), "write `NAME=VALUE`"),
            }
        }
        let capability = |name: &String| {
            let known = name.to_ascii_lowercase();
            let known = known.strip_prefix("cap_").unwrap_or(&known).parse();
            known.or_else(|_| fault(format!("Linux has no capability `{name}`"), "take it out"))
        };
        Ok(BundleProcess {
            capabilities: (self.capabilities.effective.iter())
                .map(capability)
                .collect::<Result<_, _>>()?,
            args: self.args,
            env,
            cwd,
            user: UserName::Numbered {
                user: self.user.uid,
                group: Some(self.user.gid),
            },
        })
    }
}

/// Maximum size of a configuration file, in bytes. Typical files have some 10 KiB.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the error and its position, without a quotation from the file. A file that is not a
/// bundle may contain secrets.
fn unquoted(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    let message = error.to_string();
    // Names of missing fields come from this crate, not from the file.
    let quotes_nothing = !error.is_data() || message.starts_with("missing field");
    match quotes_nothing {
        true => message,
        false => format!("a value is of another kind or unknown at {place}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Output of `crun spec`, shortened.
    const USUAL: &str = r#"{
      "ociVersion": "1.0.0",
      "process": {
        "terminal": true,
        "user": { "uid": 7, "gid": 8 },
        "args": ["sh", "-c", "true"],
        "env": ["PATH=/bin", "TERM=xterm=1"],
        "cwd": "/srv",
        "capabilities": { "effective": ["CAP_KILL", "CAP_SYS_ADMIN"], "bounding": ["CAP_KILL", "CAP_CHOWN"] },
        "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024 }],
        "noNewPrivileges": true
      },
      "root": { "path": "rootfs", "readonly": true },
      "hostname": "crun",
      "mounts": [
        { "destination": "/proc", "type": "proc", "source": "proc" },
        { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"] },
        { "destination": "/dev/shm", "type": "tmpfs", "source": "shm" },
        { "destination": "/cache", "type": "tmpfs", "source": "tmpfs" },
        { "destination": "/data", "type": "none", "source": "in", "options": ["rbind", "ro"] },
        { "destination": "/out", "type": "bind", "source": "/lab/out" }
      ],
      "linux": {
        "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
        "namespaces": [{ "type": "pid" }, { "type": "network" }, { "type": "mount" }]
      }
    }"#;

    fn parse(text: &str) -> Result<Bundle, BundleFault> {
        Bundle::parse(text.as_bytes(), Path::new("/lab"))
    }

    #[test]
    fn a_usual_bundle_is_read() {
        let bundle = parse(USUAL).expect("it is one");
        assert_eq!(bundle.root, Path::new("/lab/rootfs"));
        assert!(bundle.read_only);
        assert_eq!(bundle.rooms, [Path::new("/cache")]);
        let mounts = bundle.mounts.iter();
        let mounts: Vec<_> = mounts
            .map(|it| (it.source.to_str(), it.target.to_str(), it.writable))
            .collect();
        assert_eq!(
            mounts,
            [
                (Some("/lab/in"), Some("/data"), false),
                (Some("/lab/out"), Some("/out"), true)
            ]
        );
        let left_out = ["resources", "rlimits", "capability sys_admin"];
        assert_eq!(bundle.left_out, left_out);
        let process = bundle.process.expect("it runs something");
        assert_eq!(process.args, ["sh", "-c", "true"]);
        assert_eq!(process.env["TERM"], "xterm=1");
        assert_eq!(process.cwd, Path::new("/srv"));
        assert_eq!(process.user.to_string(), "7:8");
        assert_eq!(process.capabilities.len(), 1);
        assert_eq!(process.capabilities[0].to_string(), "kill");
    }

    #[test]
    fn unsupported_container_settings_are_refused_with_the_fix() {
        for (part, instead, message) in [
            (
                r#"{ "type": "network" }"#,
                r#"{ "type": "network", "path": "/proc/1/ns/net" }"#,
                "has its own network, /proc/1/ns/net",
            ),
            (
                r#"{ "type": "pid" }"#,
                r#"{ "type": "pid", "path": "/proc/1/ns/pid" }"#,
                "joins the pid namespace",
            ),
            (
                r#"{ "type": "pid" }"#,
                r#"{ "type": "user" }"#,
                "users of its own",
            ),
            (
                r#""hostname": "crun""#,
                r#""hooks": { "prestart": [{ "path": "/bin/true" }] }"#,
                "has hooks",
            ),
            (
                r#""args": ["sh", "-c", "true"]"#,
                r#""args": []"#,
                "runs nothing",
            ),
            (
                r#""cwd": "/srv""#,
                r#""cwd": "srv""#,
                "not an absolute path",
            ),
            ("CAP_SYS_ADMIN", "CAP_FLY", "no capability `CAP_FLY`"),
            ("TERM=xterm=1", "TERM", "`TERM` is no variable"),
            (r#""type": "none""#, r#""type": "ext4""#, ""),
            (r#""type": "proc""#, r#""type": "ext4""#, "of type `ext4`"),
            (r#""/cache""#, r#""cache""#, "not an absolute path"),
            (r#""/cache""#, r#""/cache/../etc""#, "not an absolute path"),
            (r#""/cache""#, r#""/""#, "not an absolute path"),
            (r#""rootfs""#, r#""/""#, "`/` lies outside"),
            (r#""rootfs""#, r#""../rootfs""#, "lies outside"),
            (r#""in""#, r#""/etc""#, "`/etc` lies outside"),
            (r#""in""#, r#""in/../../etc""#, "lies outside"),
            (r#""root""#, r#""boot""#, "missing field `root`"),
            (
                r#"["sh", "-c", "true"]"#,
                r#""hush""#,
                "of another kind or unknown at line",
            ),
        ] {
            assert!(USUAL.contains(part), "{part}");
            let read = parse(&USUAL.replacen(part, instead, 1));
            match message {
                "" => drop(read.expect("the option says that it is a bind")),
                _ => {
                    let fault = read.expect_err(instead);
                    assert!(fault.message.contains(message), "{fault:?}");
                    assert!(!fault.message.contains("hush"), "{fault:?}");
                    assert!(!fault.help.is_empty());
                }
            }
        }
    }

    #[test]
    fn no_link_of_a_bundle_leads_out_of_it_and_its_configuration_is_a_plain_file() {
        let place = tempfile::tempdir().expect("there is room");
        let (bundle, outside) = (place.path().join("bundle"), place.path().join("outside"));
        for folder in [
            &bundle,
            &outside,
            &bundle.join("in"),
            &bundle.join("rootfs"),
        ] {
            std::fs::create_dir(folder).expect("there is room");
        }
        let config = bundle.join("config.json");
        std::fs::write(&config, USUAL.replace("/lab/out", "in")).expect("there is room");
        Bundle::read(&bundle).expect("it is one");
        for name in ["in", "rootfs"] {
            let folder = bundle.join(name);
            std::fs::remove_dir(&folder).expect("it is ours");
            symlink(&outside, &folder).expect("there is room");
            let fault = Bundle::read(&bundle).expect_err("it leads out");
            assert!(fault.message.contains("lies outside"), "{fault:?}");
            std::fs::remove_file(&folder).expect("it is ours");
            // Within the root and the mounts, symbolic links may lead anywhere, or to nothing.
            std::fs::create_dir(&folder).expect("there is room");
            symlink("/", folder.join("top")).expect("there is room");
            Bundle::read(&bundle).expect("it is one again");
        }
        std::fs::remove_file(&config).expect("it is ours");
        symlink("/dev/zero", &config).expect("there is room");
        let fault = Bundle::read(&bundle).expect_err("it never ends");
        assert!(fault.message.contains("not a regular file"), "{fault:?}");
    }
}
