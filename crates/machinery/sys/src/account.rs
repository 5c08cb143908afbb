//! Users of the machine's user database, looked up by name or number.

use std::ffi::{CStr, CString, OsString};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

/// User as a caller specifies it: by name or by numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserName {
    /// Name of a user in the machine's user database.
    Named(String),
    /// User and, optionally, group by number.
    Numbered {
        /// User number.
        user: u32,
        /// Group number; `None` for the user's group in the database.
        group: Option<u32>,
    },
}

/// Text that cannot be a user name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUserName(pub String);

impl fmt::Display for BadUserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "`{text}` is not a user: write a name, or `UID` or `UID:GID`"
        )
    }
}

impl std::error::Error for BadUserName {}

impl FromStr for UserName {
    type Err = BadUserName;

    fn from_str(text: &str) -> Result<Self, BadUserName> {
        let bad = || BadUserName(text.to_owned());
        // The kernel takes the greatest number to mean "unchanged", so it is not accepted.
        let number = |part: &str| {
            let is_digits = part.bytes().all(|c| c.is_ascii_digit());
            let number = part.parse().ok().filter(|id| is_digits && *id != u32::MAX);
            number.ok_or_else(bad)
        };
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let (user, group) = match text.split_once(':') {
                Some((user, group)) => (user, Some(number(group)?)),
                None => (text, None),
            };
            let user = number(user)?;
            return Ok(Self::Numbered { user, group });
        }
        let plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ':';
        match text.chars().all(plain) && !text.is_empty() {
            true => Ok(Self::Named(text.to_owned())),
            false => Err(bad()),
        }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Numbered { user, group: None } => write!(f, "{user}"),
            Self::Numbered {
                user,
                group: Some(group),
            } => write!(f, "{user}:{group}"),
        }
    }
}

/// User with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User number.
    pub user: u32,
    /// Group number.
    pub group: u32,
    /// All group numbers of the user, including `group`.
    pub groups: Vec<u32>,
    /// Name and home directory; `None` if the user is not in the database.
    pub known: Option<(OsString, PathBuf)>,
}

impl Account {
    /// Returns the account of `name`, or `None` if the database has no user of this name. A user
    /// given by number need not be in the database; its group then defaults to its user number.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn of(name: &UserName) -> io::Result<Option<Self>> {
        match name {
            UserName::Named(name) => {
                let Ok(name) = CString::new(name.as_str()) else {
                    return Ok(None);
                };
                let found = entry(|entry, buffer, found| {
                    // SAFETY: passes a C string, space for the entry and its strings, and the
                    // length of that space.
                    unsafe {
                        let (at, length) = (buffer.as_mut_ptr().cast(), buffer.len());
                        libc::getpwnam_r(name.as_ptr(), entry, at, length, found)
                    }
                })?;
                found.map(|found| found.account()).transpose()
            }
            UserName::Numbered { user, group } => {
                let found = entry(|entry, buffer, found| {
                    // SAFETY: passes space for the entry and its strings, and the length of that
                    // space.
                    unsafe {
                        let (at, length) = (buffer.as_mut_ptr().cast(), buffer.len());
                        libc::getpwuid_r(*user, entry, at, length, found)
                    }
                })?;
                let known = found.map(|found| found.account()).transpose()?;
                let mut account = known.unwrap_or(Self {
                    user: *user,
                    group: *user,
                    groups: vec![*user],
                    known: None,
                });
                if let Some(group) = group {
                    (account.group, account.groups) = (*group, vec![*group]);
                }
                Ok(Some(account))
            }
        }
    }
}

impl Account {
    /// Returns true if this process runs as this user.
    pub fn is_own(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.user
    }

    /// Returns the error message for this user's lack of permission to execute `program`.
    pub fn may_not_execute(&self, program: &str) -> String {
        let user = self.user;
        format!(
            "user {user} may not execute `{program}`: the file, or a directory above it, is not \
             open to others (`namei -l` shows which)"
        )
    }

    /// Returns the environment variables that identify the user to programs. Empty if the user is
    /// not in the database.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> + '_ {
        self.known.iter().flat_map(|(name, home)| {
            [
                ("HOME", home.clone().into_os_string()),
                ("USER", name.clone()),
                ("LOGNAME", name.clone()),
            ]
        })
    }
}

/// Database entry of a user.
struct Entry {
    name: CString,
    home: OsString,
    user: u32,
    group: u32,
}

impl Entry {
    fn account(self) -> io::Result<Account> {
        let groups = groups(&self.name, self.group)?;
        Ok(Account {
            user: self.user,
            group: self.group,
            groups,
            known: Some((OsString::from_vec(self.name.into_bytes()), self.home.into())),
        })
    }
}

/// Queries the database by `ask`, with a buffer that is long enough for the entry.
fn entry(
    mut ask: impl FnMut(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> libc::c_int,
) -> io::Result<Option<Entry>> {
    let mut buffer = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        match ask(entry.as_mut_ptr(), &mut buffer, &raw mut found) {
            libc::ERANGE if buffer.len() < MOST_BYTES => buffer.resize(2 * buffer.len(), 0),
            libc::EINTR => {}
            _ if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: the entry was found, so it is initialised, and its strings are in the
                // buffer.
                return Ok(Some(unsafe {
                    let entry = entry.assume_init();
                    let home = CStr::from_ptr(entry.pw_dir).to_bytes().to_vec();
                    Entry {
                        name: CStr::from_ptr(entry.pw_name).to_owned(),
                        home: OsString::from_vec(home),
                        user: entry.pw_uid,
                        group: entry.pw_gid,
                    }
                }));
            }
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Returns the numbers of all groups of a user.
fn groups(name: &CStr, group: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: passes a C string, and space for `count` groups.
        let done = unsafe {
            libc::getgrouplist(name.as_ptr(), group, groups.as_mut_ptr(), &raw mut count)
        };
        let count = usize::try_from(count).unwrap_or(0);
        if done >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= MOST_BYTES {
            return Err(io::Error::other("more groups than Linux has"));
        }
        groups.resize(count.max(2 * groups.len()), 0);
    }
}

/// Upper bound of a buffer's size: no entry is longer, and no user has more groups (NGROUPS_MAX).
const MOST_BYTES: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_told_apart() {
        let read = |text: &str| text.parse::<UserName>();
        let numbered = |user, group| Ok(UserName::Numbered { user, group });
        assert_eq!(read("nobody"), Ok(UserName::Named("nobody".to_owned())));
        assert_eq!(read("1000"), numbered(1000, None));
        assert_eq!(read("1000:100"), numbered(1000, Some(100)));
        for good in ["nobody", "1000", "0:0", "www-data", "Müller"] {
            assert_eq!(read(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "1000:",
            "1000:x",
            "1a",
            "4294967295",
            "0:4294967295",
            "a:b",
            "a b",
        ] {
            assert_eq!(read(bad), Err(BadUserName(bad.to_owned())));
        }
    }

    #[test]
    fn the_database_is_asked() {
        let of = |text: &str| Account::of(&text.parse().unwrap()).unwrap();
        let root = of("root").expect("every machine has it");
        assert_eq!((root.user, root.group), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(of("0"), Some(root));
        assert_eq!(of("timeloom-has-no-such-user"), None);
        let unknown = of("3141592").expect("numbers need not be known");
        assert_eq!((unknown.group, unknown.known), (3_141_592, None));
        assert_eq!(of("0:7").unwrap().groups, [7]);
    }
}
