//! Numbers of those calls that `nr.rs` does not look up in the table of system calls.

pub(crate) const FCNTL: usize = 25;
pub(crate) const CLOSE: usize = 57;
pub(crate) const EXIT: usize = 93;
pub(crate) const EXIT_GROUP: usize = 94;
pub(crate) const CLOCK_GETRES: usize = 114;
pub(crate) const KILL: usize = 129;
pub(crate) const RT_SIGQUEUEINFO: usize = 138;
pub(crate) const RT_SIGRETURN: usize = 139;
pub(crate) const GETCPU: usize = 168;
pub(crate) const GETPID: usize = 172;
pub(crate) const GETTID: usize = 178;
pub(crate) const GETSOCKOPT: usize = 209;
pub(crate) const RT_TGSIGQUEUEINFO: usize = 240;
pub(crate) const GETRANDOM: usize = 278;
