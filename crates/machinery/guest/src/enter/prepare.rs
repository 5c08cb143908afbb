//! Data for the child of a fork, prepared in advance. After the fork the child must not allocate,
//! since it shares its memory with all threads of its parent.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use timeloom_sys::account::Account;
use timeloom_sys::{environment, rooted};

use crate::error::GuestError;
use crate::filter;

use super::spec::{CommandSpec, Variables};

/// All data that the child passes to the kernel.
pub(super) struct Prepared {
    pub(super) program: CString,
    pub(super) arguments: Vec<*const libc::c_char>,
    pub(super) environment: Vec<*const libc::c_char>,
    pub(super) directory: Option<CString>,
    pub(super) filter: Vec<libc::sock_filter>,
    /// True if reads of the time-stamp counter trap.
    pub(super) emulates_tsc: bool,
    /// Strings to which the pointer lists refer.
    _strings: Vec<CString>,
}

pub(super) fn prepare(
    spec: &CommandSpec,
    emulates_tsc: bool,
    dates_files: bool,
    has_card: bool,
) -> Result<Prepared, GuestError> {
    let first = spec
        .argv
        .first()
        .ok_or_else(|| GuestError::Usage("no command was given".into()))?;
    let account = spec.rights.as_ref().and_then(|rights| rights.account());
    let is_ours = account.is_none_or(Account::is_own);
    let mut variables: BTreeMap<OsString, OsString> = match &spec.root {
        None if spec.inherits == Variables::All && is_ours => {
            let all = std::env::vars_os();
            all.filter(|(name, _)| name != environment::LOG).collect()
        }
        None => environment::usual(account).collect(),
        Some(_) => BTreeMap::from([("PATH".into(), rooted::PATH.into())]),
    };
    for (name, value) in account.iter().flat_map(|account| account.variables()) {
        variables.insert(name.into(), value);
    }
    variables.extend(spec.env.clone());
    let directory = directory(spec)?;
    let base = directory.as_deref().unwrap_or(Path::new("."));
    let first: &Path = first.as_ref();
    let path = variables.get(std::ffi::OsStr::new("PATH"));
    let program = match &spec.root {
        None => resolve(first, base, path),
        Some(root) => {
            let path = path.map_or("".into(), |path| path.to_string_lossy());
            root.program(first, base, &path)
                .unwrap_or_else(|| first.to_owned())
        }
    };
    let c_string = |bytes: Vec<u8>| {
        CString::new(bytes)
            .map_err(|_| GuestError::Usage("arguments cannot contain a zero byte".into()))
    };
    let mut strings = Vec::new();
    for argument in &spec.argv {
        strings.push(c_string(argument.clone().into_vec())?);
    }
    let count = strings.len();
    for (name, value) in variables {
        let mut text = name.into_vec();
        text.push(b'=');
        text.extend(value.into_vec());
        strings.push(c_string(text)?);
    }
    let pointers = |strings: &[CString]| {
        strings
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<_>>()
    };
    Ok(Prepared {
        program: c_string(program.into_os_string().into_vec())?,
        arguments: pointers(&strings[..count]),
        environment: pointers(&strings[count..]),
        directory: directory
            .as_ref()
            .map(|path| c_string(path.as_os_str().as_bytes().to_vec()))
            .transpose()?,
        filter: filter::program_on(filter::Guest::launched(emulates_tsc, dates_files), has_card),
        emulates_tsc,
        _strings: strings,
    })
}

/// Returns the directory that the child must enter after it has entered its namespaces, since
/// entering a mount namespace loses the working directory. Returns `None` if the child keeps its
/// directory.
fn directory(spec: &CommandSpec) -> Result<Option<PathBuf>, GuestError> {
    let given = spec.directory.clone();
    if spec.identity.is_none() || spec.root.is_some() {
        return Ok(given);
    }
    let here = std::env::current_dir();
    let here = here.map_err(GuestError::system("finding the working directory"))?;
    Ok(Some(here.join(given.unwrap_or_default())))
}

/// Finds a program like `execvp`: a name with a slash is a path, relative to the directory in which
/// the program will start; other names are looked up in `path`.
fn resolve(name: &Path, directory: &Path, path: Option<&OsString>) -> PathBuf {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return name.to_owned();
    }
    std::env::split_paths(path.map_or(std::ffi::OsStr::new("/usr/bin:/bin"), |path| {
        path.as_os_str()
    }))
    .map(|entry| entry.join(name))
    .find(|candidate| {
        let at = if candidate.is_absolute() {
            candidate.clone()
        } else {
            directory.join(candidate)
        };
        let path = CString::new(at.into_os_string().into_vec());
        // SAFETY: a valid C string.
        at_file(&path)
            && path.is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0)
    })
    .unwrap_or_else(|| name.to_owned())
}

fn at_file(path: &Result<CString, std::ffi::NulError>) -> bool {
    path.as_ref()
        .is_ok_and(|path| Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())).is_file())
}
