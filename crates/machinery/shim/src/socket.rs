//! Socket calls with a timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`) and with timestamps.
//!
//! The kernel stores the timeout, so that `getsockopt` returns its native value, but the kernel
//! never waits for it. The image first tries each call without blocking. On EAGAIN, it waits by
//! `ppoll` for the descriptor, in virtual time, and tries the call again. These calls trap only in
//! processes that have set such an option (`extra.rs`).
//!
//! The kernel handles calls on a socket without a timeout, calls that do not block, and calls on
//! other kinds of descriptors.

mod waiting;

use timeloom_abi::calls::Extra;

use crate::abi::MessageHeader;
use crate::card::{self, Message};
use crate::clock::page;
use crate::extra::install;
use crate::stamps::translate;
use crate::sys::{errno, nr, syscall};
use waiting::{Timeout, is_stream, set_status_flags, status_flags, waiting};

/// Handles `setsockopt(fd, SOL_SOCKET, option, value, length)` of a time-related option.
pub(crate) fn setsockopt(args: [usize; 6]) -> isize {
    let extra = match args[2] as i32 {
        SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => Extra::Timeouts,
        _ => Extra::Stamps,
    };
    // The filter must come before the option: another thread may be about to use the socket.
    if !install(extra) {
        return errno::ENOPROTOOPT;
    }
    if matches!(args[2] as i32, SO_TIMESTAMPING | SO_TIMESTAMPING_NEW) && page().has_card() {
        return card::set_stamping(args);
    }
    // SAFETY: the kernel checks the pointer.
    unsafe { syscall(nr::SETSOCKOPT, args) }
}

/// Handles `recvmsg(fd, header, flags)`.
pub(crate) fn recvmsg(args: [usize; 6]) -> isize {
    let [fd, header, flags, ..] = args;
    let result = waiting(fd, flags, |wait| {
        let args = [fd, header, flags | wait.flag(), 0, 0, 0];
        // SAFETY: the kernel checks the header and the buffers that it points to.
        unsafe { syscall(nr::RECVMSG, args) }
    });
    if result >= 0 {
        let length = result as usize;
        // SAFETY: the kernel has just filled the header.
        unsafe { translate(header, Message { fd, flags, length }) };
    }
    result
}

/// Receives one message of a `recvmmsg`, and stores its length. Returns 1 or an error.
pub(crate) fn receive_one(fd: usize, message: usize, flags: usize) -> isize {
    let result = waiting(fd, flags, |wait| {
        let args = [fd, message, 1, flags | wait.flag(), 0, 0];
        // SAFETY: the kernel checks the message.
        unsafe { syscall(nr::RECVMMSG, args) }
    });
    if result > 0 {
        let length = message.wrapping_add(size_of::<MessageHeader>()) as *const u32;
        // SAFETY: the kernel has just filled the message: the header, and the length of the data.
        unsafe {
            let length = length.read_unaligned() as usize;
            translate(message, Message { fd, flags, length });
        }
    }
    result
}

/// Handles `recvfrom(fd, buffer, length, flags, address, address_length)`.
pub(crate) fn recvfrom(args: [usize; 6]) -> isize {
    let [fd, buffer, length, flags, address, address_length] = args;
    let whole = flags & (MSG_WAITALL | MSG_PEEK | MSG_TRUNC) == MSG_WAITALL;
    let mut received = 0usize;
    let Some(mut timeout) = Timeout::of(fd, SO_RCVTIMEO, flags) else {
        // SAFETY: the program's own call.
        return unsafe { syscall(nr::RECVFROM, args) };
    };
    loop {
        let result = timeout.retry(POLLIN, || {
            let at = buffer.wrapping_add(received);
            let left = length - received;
            let args = [fd, at, left, flags | MSG_DONTWAIT, address, address_length];
            // SAFETY: the kernel checks the pointers.
            unsafe { syscall(nr::RECVFROM, args) }
        });
        if result <= 0 {
            // If data was already received, the result is its length, as in the kernel.
            return if received > 0 {
                received as isize
            } else {
                result
            };
        }
        received += result as usize;
        if !whole || received >= length || !is_stream(fd) {
            return received as isize;
        }
    }
}

/// Handles `read(fd, buffer, length)`.
pub(crate) fn read(args: [usize; 6]) -> isize {
    let [fd, buffer, length, ..] = args;
    // Reading zero bytes from a socket does not block; receiving zero bytes does.
    match Timeout::of(fd, SO_RCVTIMEO, 0) {
        Some(_) if length > 0 => recvfrom([fd, buffer, length, 0, 0, 0]),
        // SAFETY: the program's own call.
        _ => unsafe { syscall(nr::READ, args) },
    }
}

/// Handles `readv(fd, parts, count)`.
pub(crate) fn readv(args: [usize; 6]) -> isize {
    let [fd, parts, count, ..] = args;
    match Timeout::of(fd, SO_RCVTIMEO, 0) {
        Some(_) if (1..=MOST_PARTS).contains(&count) => {
            let header = MessageHeader::of_parts(parts, count);
            recvmsg([fd, &raw const header as usize, 0, 0, 0, 0])
        }
        // SAFETY: the program's own call.
        _ => unsafe { syscall(nr::READV, args) },
    }
}

/// Handles `accept` and `accept4`, which have no flag for non-blocking operation. If another thread
/// takes the connection between the poll and the call, the call blocks in real time, up to the
/// timeout.
pub(crate) fn accept(call: usize, args: [usize; 6]) -> isize {
    // SAFETY: the kernel checks the pointers.
    let accept = || unsafe { syscall(call, args) };
    let Some(timeout) = Timeout::of(args[0], SO_RCVTIMEO, 0) else {
        return accept();
    };
    loop {
        match timeout.wait_for(POLLIN) {
            1.. => {}
            result => return result,
        }
        match accept() {
            errno::EAGAIN => {}
            result => return result,
        }
    }
}

/// Handles `connect(fd, address, length)`, to which the send timeout applies.
pub(crate) fn connect(args: [usize; 6]) -> isize {
    let fd = args[0];
    // SAFETY: the kernel checks the pointer.
    let connect = || unsafe { syscall(nr::CONNECT, args) };
    let Some(timeout) = Timeout::of(fd, SO_SNDTIMEO, 0) else {
        return connect();
    };
    loop {
        let flags = status_flags(fd);
        set_status_flags(fd, flags | O_NONBLOCK);
        let result = connect();
        set_status_flags(fd, flags);
        match result {
            errno::EINPROGRESS | errno::EALREADY => match timeout.wait_for(POLLOUT) {
                errno::EAGAIN => return errno::EINPROGRESS,
                1.. => {}
                interrupted => return interrupted,
            },
            // EAGAIN means a UNIX socket whose listener has a full queue.
            errno::EAGAIN => match timeout.nap() {
                0 => {}
                result => return result,
            },
            result => return result,
        }
    }
}

/// Handles `sendto(fd, buffer, length, flags, address, address_length)`.
pub(crate) fn sendto(args: [usize; 6]) -> isize {
    let [fd, buffer, length, flags, address, address_length] = args;
    let Some(timeout) = Timeout::of(fd, SO_SNDTIMEO, flags) else {
        // SAFETY: the program's own call.
        return unsafe { syscall(nr::SENDTO, args) };
    };
    send(timeout, length, |sent, flag| {
        let at = buffer.wrapping_add(sent);
        let left = length - sent;
        let args = [fd, at, left, flags | flag, address, address_length];
        // SAFETY: the kernel checks the pointers.
        Some(unsafe { syscall(nr::SENDTO, args) })
    })
}

/// Handles `write(fd, buffer, length)`.
pub(crate) fn write(args: [usize; 6]) -> isize {
    let [fd, buffer, length, ..] = args;
    match Timeout::of(fd, SO_SNDTIMEO, 0) {
        Some(_) => sendto([fd, buffer, length, 0, 0, 0]),
        // SAFETY: the program's own call.
        None => unsafe { syscall(nr::WRITE, args) },
    }
}

/// Handles `writev(fd, parts, count)`.
pub(crate) fn writev(args: [usize; 6]) -> isize {
    let [fd, parts, count, ..] = args;
    match Timeout::of(fd, SO_SNDTIMEO, 0) {
        Some(_) if (1..=MOST_PARTS).contains(&count) => {
            let header = MessageHeader::of_parts(parts, count);
            sendmsg([fd, &raw const header as usize, 0, 0, 0, 0])
        }
        // SAFETY: the program's own call.
        _ => unsafe { syscall(nr::WRITEV, args) },
    }
}

/// Handles `sendmsg(fd, header, flags)`.
pub(crate) fn sendmsg(args: [usize; 6]) -> isize {
    let [fd, header, flags, ..] = args;
    let Some(timeout) = Timeout::of(fd, SO_SNDTIMEO, flags) else {
        // SAFETY: the program's own call.
        return unsafe { syscall(nr::SENDMSG, args) };
    };
    send(timeout, usize::MAX, |sent, flag| {
        if sent == 0 {
            let args = [fd, header, flags | flag, 0, 0, 0];
            // SAFETY: the kernel checks the header.
            return Some(unsafe { syscall(nr::SENDMSG, args) });
        }
        // SAFETY: the kernel has read the header and its parts.
        let header = unsafe { (header as *const MessageHeader).read_unaligned() };
        let mut rest = [Part {
            address: 0,
            length: 0,
        }; FEW_PARTS];
        // SAFETY: as above.
        let count = unsafe { parts_behind(&header, sent, &mut rest) }?;
        let header = MessageHeader::of_parts(rest.as_ptr() as usize, count);
        let args = [fd, &raw const header as usize, flags | flag, 0, 0, 0];
        // SAFETY: the kernel checks the parts; the header is the image's.
        Some(unsafe { syscall(nr::SENDMSG, args) })
    })
}

/// Handles `sendmmsg(fd, messages, count, flags)`.
pub(crate) fn sendmmsg(args: [usize; 6]) -> isize {
    let [fd, messages, count, flags, ..] = args;
    if Timeout::of(fd, SO_SNDTIMEO, flags).is_none() {
        // SAFETY: the program's own call.
        return unsafe { syscall(nr::SENDMMSG, args) };
    }
    let mut sent = 0;
    while sent < count.min(MOST_PARTS) {
        let message = messages.wrapping_add(sent * MESSAGE_BYTES);
        let result = sendmsg([fd, message, flags, 0, 0, 0]);
        if result < 0 {
            return if sent > 0 { sent as isize } else { result };
        }
        let length = message.wrapping_add(size_of::<MessageHeader>()) as *mut u32;
        // SAFETY: the kernel has just read the header; the program passed the structure so that it
        // is written to.
        unsafe { length.write_unaligned(result as u32) };
        sent += 1;
    }
    sent as isize
}

/// Sends all data if the socket is a stream. `attempt` takes the number of bytes sent so far and
/// flags, and returns `None` to stop.
fn send(
    mut timeout: Timeout,
    length: usize,
    mut attempt: impl FnMut(usize, usize) -> Option<isize>,
) -> isize {
    let mut sent = 0usize;
    loop {
        let mut gave_up = false;
        // Only a call that has sent nothing may raise SIGPIPE and return an error.
        let quiet = if sent > 0 { MSG_NOSIGNAL } else { 0 };
        let result = timeout.retry(POLLOUT, || {
            attempt(sent, MSG_DONTWAIT | quiet).unwrap_or_else(|| {
                gave_up = true;
                0
            })
        });
        if result < 0 || gave_up {
            return if sent > 0 { sent as isize } else { result };
        }
        sent = sent.saturating_add(result as usize);
        if result == 0 || sent >= length || !is_stream(timeout.fd) {
            return sent as isize;
        }
        timeout.renew_if_unix();
    }
}

/// Writes those parts of a message that follow the first `sent` bytes to `rest`, and returns their
/// number. Returns `None` if nothing remains, or if there are more parts than `rest` has space for.
///
/// # Safety
/// The kernel must have just read the parts.
unsafe fn parts_behind(
    header: &MessageHeader,
    mut sent: usize,
    rest: &mut [Part; FEW_PARTS],
) -> Option<usize> {
    let mut count = 0;
    for index in 0..header.part_count {
        let at = header.parts.wrapping_add(index * size_of::<Part>());
        // SAFETY: guaranteed by the caller.
        let part = unsafe { (at as *const Part).read_unaligned() };
        if sent >= part.length {
            sent -= part.length;
            continue;
        }
        *rest.get_mut(count)? = Part {
            address: part.address.wrapping_add(sent),
            length: part.length - sent,
        };
        sent = 0;
        count += 1;
    }
    (count > 0).then_some(count)
}

/// Part of a message, by address and length: `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Part {
    address: usize,
    length: usize,
}

/// Size of a `struct mmsghdr` in bytes.
pub(crate) const MESSAGE_BYTES: usize = 64;
/// UIO_MAXIOV: maximum number of parts of a message, and of messages of one call.
const MOST_PARTS: usize = 1024;
/// Number of parts for which there is space on the stack. A message of more parts may be sent
/// incompletely.
const FEW_PARTS: usize = 32;
const SOL_SOCKET: usize = 1;
const SO_TIMESTAMPING: i32 = 37;
const SO_TIMESTAMPING_NEW: i32 = 65;
const SO_RCVTIMEO: i32 = 20;
const SO_SNDTIMEO: i32 = 21;
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
const O_NONBLOCK: usize = 0x800;
const POLLIN: i16 = 1;
const POLLOUT: i16 = 4;
const MSG_PEEK: usize = 0x2;
const MSG_TRUNC: usize = 0x20;
const MSG_DONTWAIT: usize = 0x40;
const MSG_WAITALL: usize = 0x100;
const MSG_NOSIGNAL: usize = 0x4000;
