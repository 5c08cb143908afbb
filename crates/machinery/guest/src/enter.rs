//! How a program comes under the clock before its first instruction.
//!
//! `launch` forks by a `spec`, sharing memory (`vfork`); the `child` does with what was `prepare`d what is left to do, sends
//! the descriptor of its filter's listener, and executes. What was started is a
//! `guest`. At the exec `inject` attaches for a moment and maps clock page and `image`; `auxv` finds where the kernel's vDSO is
//! announced to the program, `vdso` what is in it, and `kernel_vdso` makes it lead to the image;
//! `replace` does all that to a program. A `root` is what a program in a container sees for the
//! machine's files.

pub(crate) mod auxv;
mod child;
pub(crate) mod debugged;
pub(crate) mod guest;
pub(crate) mod identity;
pub(crate) mod image;
pub(crate) mod inject;
pub(crate) mod kernel_vdso;
pub(crate) mod launch;
mod prepare;
mod replace;
pub(crate) mod root;
pub(crate) mod spec;
pub(crate) mod vdso;
mod vfork;
