//! Environment variables that a program inherits by default: those of its user, language and
//! terminal. Other variables may contain secrets, or determine what the program loads.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::account::Account;

/// Names of variables that a program of the same user inherits.
pub const USUAL: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    // Path of the timeloom executable, for scripts that control the run.
    "TIMELOOM",
];

/// Prefixes of further names of variables that a program inherits.
pub const USUAL_PREFIXES: &[&str] = &["LC_", "TIMELOOM_"];

/// Name of the variable with the filter of Timeloom's own log lines. It is for the process that it
/// was given to and for the processes that this one starts for itself; programs of a session, which
/// may be instances of Timeloom, do not inherit it.
pub const LOG: &str = "TIMELOOM_LOG";

/// Those names in [`USUAL`] whose value depends on the user: another user has another value, or
/// none.
const OF_USER: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
];

/// Returns true if a program inherits the variable `name` by default. `of_another_user` is true if
/// the program runs as another user than this process.
pub fn is_usual(name: &OsStr, of_another_user: bool) -> bool {
    let is_named = USUAL.iter().any(|usual| name == *usual);
    let begins = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
    let is_of_user = OF_USER.iter().any(|own| name == *own);
    (is_named || USUAL_PREFIXES.iter().any(|prefix| begins(prefix)))
        && !(of_another_user && is_of_user)
        && name != LOG
}

/// Returns the variables of this process that a program of `account` inherits by default, and those
/// that identify the account. Without an account, the program runs as this process's user.
pub fn usual(account: Option<&Account>) -> impl Iterator<Item = (OsString, OsString)> + '_ {
    let of_another = account.is_some_and(|account| !account.is_own());
    let ours = std::env::vars_os().filter(move |(name, _)| is_usual(name, of_another));
    let theirs = account.into_iter().flat_map(Account::variables);
    ours.chain(theirs.map(|(name, value)| (name.into(), value)))
}

/// Returns the variables of this process that a program of `account` receives: the usual ones and
/// those that match `inherit` as in [`is_wanted`]. Without an account, the program runs as this
/// process's user.
pub fn given<'a>(
    account: Option<&'a Account>,
    inherit: &'a [String],
) -> impl Iterator<Item = (OsString, OsString)> + 'a {
    let wanted = std::env::vars_os().filter(move |(name, _)| is_wanted(name, inherit));
    usual(account).chain(wanted)
}

/// Returns true if one of the patterns `wanted` matches `name`. A `*` at the end of a pattern
/// matches any suffix.
pub fn is_wanted(name: &OsStr, wanted: &[String]) -> bool {
    wanted.iter().any(|one| match one.strip_suffix('*') {
        Some(beginning) => name.as_bytes().starts_with(beginning.as_bytes()),
        None => name == one.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_loader_variables_are_not_passed_on() {
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "LD_PRELOAD",
            "PYTHONPATH",
            "SSH_AUTH_SOCK",
            "L",
            LOG,
        ] {
            assert!(!is_usual(name.as_ref(), false), "{name}");
        }
        for name in ["PATH", "LC_ALL", "TZ", "TIMELOOM_SEED"] {
            assert!(is_usual(name.as_ref(), true), "{name}");
        }
        assert!(is_usual("HOME".as_ref(), false) && !is_usual("HOME".as_ref(), true));
        let wanted = ["OMP_*".to_owned(), "PYTHONPATH".to_owned()];
        assert!(is_wanted("OMP_NUM_THREADS".as_ref(), &wanted));
        assert!(is_wanted("PYTHONPATH".as_ref(), &wanted));
        assert!(!is_wanted("PYTHONPATH2".as_ref(), &wanted));
        assert!(is_wanted("ANY".as_ref(), &["*".to_owned()]));
    }
}
