//! Numbers of those calls that `nr.rs` does not look up in the table of system calls.

pub(crate) const CLOSE: usize = 3;
pub(crate) const RT_SIGRETURN: usize = 15;
pub(crate) const GETPID: usize = 39;
pub(crate) const GETSOCKOPT: usize = 55;
pub(crate) const EXIT: usize = 60;
pub(crate) const KILL: usize = 62;
pub(crate) const FCNTL: usize = 72;
pub(crate) const RT_SIGQUEUEINFO: usize = 129;
pub(crate) const GETTID: usize = 186;
pub(crate) const CLOCK_GETRES: usize = 229;
pub(crate) const EXIT_GROUP: usize = 231;
pub(crate) const RT_TGSIGQUEUEINFO: usize = 297;
pub(crate) const GETCPU: usize = 309;
pub(crate) const GETRANDOM: usize = 318;
