//! Preparation of a program for the virtual clock before its first instruction.
//!
//! `launch` forks by a `spec`, sharing memory (`vfork`). The `child` completes the setup that
//! `prepare` has begun, sends the descriptor of its filter's listener to the supervisor, and
//! executes the program. A started program is a `guest`. At the exec, `inject` attaches to the
//! process for a moment and maps the clock page and the `image` (Timeloom's code in each guest
//! process). `auxv` finds the entry that announces the kernel's vDSO to the program, `vdso` parses
//! the vDSO, and `kernel_vdso` redirects it to the image; `replace` applies all that to a program.
//! A `root` is the file system of programs in a container.

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
