//! How a program comes under the clock before its first instruction.
//!
//! `launch` forks with the filter and executes; at the exec `inject` attaches for a
//! moment and maps clock page and `image`; `auxv` finds where the kernel's vDSO is
//! announced to the program, and `vdso` what is in it.

pub(crate) mod auxv;
pub(crate) mod image;
pub(crate) mod inject;
pub(crate) mod launch;
pub(crate) mod vdso;
