//! What `recvmsg` says beside the bytes: control messages and the stamps in
//! them. For captures here, and for sockets of other crates that want stamps.
//! Layouts: cmsg(3), timestamping.rst.

use core::mem::size_of;

use timeloom_time::Duration;

/// Walks `struct cmsghdr`: length (with this header), level, kind, data, and
/// padding to the next multiple of 8. Each is given as level, kind and data; what
/// claims to be longer than the area ends the walk.
pub fn control_messages(mut area: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    const HEADER_LEN: usize = size_of::<libc::cmsghdr>();
    std::iter::from_fn(move || {
        let (len, rest) = area.split_first_chunk::<{ size_of::<usize>() }>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, _) = rest.split_first_chunk::<4>()?;
        let len = usize::from_ne_bytes(*len);
        let data = area.get(HEADER_LEN..len)?;
        area = area.get(len.next_multiple_of(8)..).unwrap_or_default();
        Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data))
    })
}

/// Nanoseconds in a `struct timespec` of a 64-bit machine; zero means that there
/// is no stamp.
pub fn timespec_ns(data: &[u8]) -> Option<i64> {
    let (s, rest) = data.split_first_chunk::<8>()?;
    let (ns, _) = rest.split_first_chunk::<8>()?;
    let time = Duration::from_s_ns(i64::from_ne_bytes(*s), i64::from_ne_bytes(*ns)).as_ns();
    (time != 0).then_some(time)
}
