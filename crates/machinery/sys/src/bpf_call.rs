//! The system call `bpf`, and what several of its commands share.

use std::ffi::CStr;
use std::io;

/// Licence of the programs, in the form that the kernel expects.
pub(crate) const LICENCE: &CStr = c"Dual MIT/GPL";

// Linux, include/uapi/linux/bpf.h: commands.
pub(crate) const BPF_MAP_CREATE: libc::c_int = 0;
pub(crate) const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
pub(crate) const BPF_PROG_LOAD: libc::c_int = 5;
pub(crate) const BPF_BTF_LOAD: libc::c_int = 18;
pub(crate) const BPF_LINK_CREATE: libc::c_int = 28;
pub(crate) const BPF_LINK_UPDATE: libc::c_int = 29;

/// union bpf_attr, as BPF_LINK_CREATE reads it.
#[repr(C)]
pub(crate) struct LinkCreate {
    /// Program, or map of type STRUCT_OPS.
    pub(crate) program: u32,
    pub(crate) target: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
}

/// union bpf_attr, as BPF_MAP_CREATE reads it; bytes beyond it count as zero.
#[repr(C)]
#[derive(Default)]
pub(crate) struct MapCreate {
    pub(crate) kind: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    /// Inner map, and node of the memory.
    pub(crate) unused: [u32; 2],
    pub(crate) name: [u8; 16],
    pub(crate) interface: u32,
    /// Descriptor of BTF, and types of key and value in it.
    pub(crate) types: u32,
    pub(crate) none: [u32; 2],
    /// Type of the value in the kernel's own BTF.
    pub(crate) value_kind: u32,
}

const _: () = assert!(std::mem::offset_of!(MapCreate, value_kind) == 60);

/// Executes a command; returns a descriptor or another nonnegative number.
///
/// # Safety
/// `attributes` must be those of `command`, and the data they point at must be valid.
pub(crate) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: guaranteed by the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as libc::c_int)
}
