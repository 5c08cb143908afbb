//! Reading and writing the memory of a process that waits for our answer.

/// Whether all of `into` could be read at `address`.
pub(crate) fn read_memory(thread: i32, address: u64, into: &mut [u8]) -> bool {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: into.len(),
    };
    // SAFETY: `local` describes `into`; the kernel checks the other side.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    read == into.len() as isize
}

/// Whether all of `from` could be written at `address`.
pub(crate) fn write_memory(thread: i32, address: u64, from: &[u8]) -> bool {
    let local = libc::iovec {
        iov_base: from.as_ptr().cast_mut().cast(),
        iov_len: from.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: from.len(),
    };
    // SAFETY: `local` describes `from`; the kernel checks the other side.
    let written =
        unsafe { libc::process_vm_writev(thread, &raw const local, 1, &raw const remote, 1, 0) };
    written == from.len() as isize
}
