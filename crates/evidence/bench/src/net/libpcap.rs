//! Access to a network interface by libpcap, as in the paper's emulation portal. The library of the
//! machine (Debian's `libpcap0.8`) is loaded when needed, without linking to it.
//!
//! The mode is the best one for a portal: frames are delivered immediately, and waiting uses the
//! descriptor. libpcap reads frames from a ring buffer that it shares with the kernel, and sends
//! each frame with a system call.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use libloading::Library;
use timeloom_emulation::{Port, ReceiveResult, TxStatus};
use timeloom_fabric::Namespace;
use timeloom_net::{Frame, LARGE, OffloadedWork};

use crate::error::BenchError;

/// Description of a captured frame, `struct pcap_pkthdr`.
#[repr(C)]
struct Header {
    at: libc::timeval,
    captured: u32,
    length: u32,
}

/// Counters of Linux, `struct pcap_stat`.
#[repr(C)]
#[derive(Default)]
struct Counts {
    received: c_uint,
    dropped: c_uint,
    dropped_by_interface: c_uint,
}

type Handle = NonNull<c_void>;
type Set = unsafe extern "C" fn(Handle, c_int) -> c_int;

/// The functions of libpcap used here; `pcap(3pcap)` documents them.
struct Functions {
    create: unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_void,
    set_snaplen: Set,
    set_promisc: Set,
    set_immediate_mode: Set,
    set_buffer_size: Set,
    activate: unsafe extern "C" fn(Handle) -> c_int,
    setdirection: Set,
    setnonblock: unsafe extern "C" fn(Handle, c_int, *mut c_char) -> c_int,
    get_selectable_fd: unsafe extern "C" fn(Handle) -> c_int,
    next_ex: unsafe extern "C" fn(Handle, *mut *mut Header, *mut *const c_uchar) -> c_int,
    inject: unsafe extern "C" fn(Handle, *const c_void, usize) -> c_int,
    stats: unsafe extern "C" fn(Handle, *mut Counts) -> c_int,
    geterr: unsafe extern "C" fn(Handle) -> *const c_char,
    close: unsafe extern "C" fn(Handle),
}

impl Functions {
    /// Loads the functions of the machine's library; fails with the name of a missing part.
    fn get() -> Result<&'static Self, BenchError> {
        static FUNCTIONS: OnceLock<Result<(Library, Functions), String>> = OnceLock::new();
        let found = FUNCTIONS.get_or_init(|| Self::load().map_err(|error| error.to_string()));
        match found {
            Ok((_, functions)) => Ok(functions),
            Err(why) => Err(BenchError::Worker(format!("libpcap: {why}"))),
        }
    }

    fn load() -> Result<(Library, Self), libloading::Error> {
        // SAFETY: libpcap has no initialisers with preconditions.
        let library = unsafe { Library::new("libpcap.so.0.8") }?;
        /// Loads a function by its name, with the type of its field.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types above are those of libpcap's headers for this name; the library
                // stays loaded until the process ends.
                *unsafe { library.get($name) }?
            };
        }
        let functions = Self {
            create: function!(b"pcap_create\0"),
            set_snaplen: function!(b"pcap_set_snaplen\0"),
            set_promisc: function!(b"pcap_set_promisc\0"),
            set_immediate_mode: function!(b"pcap_set_immediate_mode\0"),
            set_buffer_size: function!(b"pcap_set_buffer_size\0"),
            activate: function!(b"pcap_activate\0"),
            setdirection: function!(b"pcap_setdirection\0"),
            setnonblock: function!(b"pcap_setnonblock\0"),
            get_selectable_fd: function!(b"pcap_get_selectable_fd\0"),
            next_ex: function!(b"pcap_next_ex\0"),
            inject: function!(b"pcap_inject\0"),
            stats: function!(b"pcap_stats\0"),
            geterr: function!(b"pcap_geterr\0"),
            close: function!(b"pcap_close\0"),
        };
        Ok((library, functions))
    }
}

/// `PCAP_D_IN`: frames that this process sends are not captured.
const ONLY_ARRIVALS: c_int = 1;
/// `PCAP_ERRBUF_SIZE`: length of the buffer for error messages.
const ERROR_BYTES: usize = 256;
/// Size of the ring buffer in bytes, equal to that of the raw socket with which libpcap is
/// compared.
const RING_BYTES: c_int = 8 << 20;

/// A network interface that is open for capturing and sending.
pub(super) struct PcapPort {
    functions: &'static Functions,
    handle: Handle,
}

// SAFETY: a handle may be used by any thread, by one at a time, and functions that change it take
// `&mut`.
unsafe impl Send for PcapPort {}

impl PcapPort {
    /// Opens `interface` of `namespace`.
    pub(super) fn open(namespace: &Namespace, interface: &str) -> Result<Self, BenchError> {
        let functions = Functions::get()?;
        let failed = |error: timeloom_fabric::KernelError| BenchError::Worker(error.to_string());
        namespace
            .run(|| Self::open_here(functions, interface))
            .map_err(failed)?
    }

    fn open_here(functions: &'static Functions, interface: &str) -> Result<Self, BenchError> {
        let name = CString::new(interface).expect("a name of ours");
        let mut said = [0; ERROR_BYTES];
        // SAFETY: a zero-terminated name, and a buffer of the maximum size that libpcap writes.
        let handle = unsafe { (functions.create)(name.as_ptr(), said.as_mut_ptr()) };
        let port = Self {
            functions,
            handle: NonNull::new(handle).ok_or_else(|| {
                BenchError::Worker(format!("libpcap made no handle for {interface}"))
            })?,
        };
        let snaplen = c_int::try_from(LARGE).expect("64 KiB");
        for (set, value) in [
            (functions.set_snaplen, snaplen),
            (functions.set_promisc, 1),
            (functions.set_immediate_mode, 1),
            (functions.set_buffer_size, RING_BYTES),
        ] {
            // SAFETY: the handle is not activated yet, as these functions require.
            port.check(unsafe { set(port.handle, value) })?;
        }
        // SAFETY: the handle was just created.
        port.check(unsafe { (functions.activate)(port.handle) })?;
        // SAFETY: the handle is active.
        port.check(unsafe { (functions.setdirection)(port.handle, ONLY_ARRIVALS) })?;
        // SAFETY: as above, with the same buffer as before.
        port.check(unsafe { (functions.setnonblock)(port.handle, 1, said.as_mut_ptr()) })?;
        Ok(port)
    }

    /// Returns libpcap's error message if `status` is an error. Warnings are above zero.
    fn check(&self, status: c_int) -> Result<(), BenchError> {
        if status >= 0 {
            return Ok(());
        }
        Err(BenchError::Worker(format!("libpcap: {}", self.error())))
    }

    fn error(&self) -> String {
        // SAFETY: a zero-terminated text, valid until the next call with this handle.
        let text = unsafe { CStr::from_ptr((self.functions.geterr)(self.handle)) };
        text.to_string_lossy().into_owned()
    }
}

impl Port for PcapPort {
    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: an active handle on Linux has a descriptor, which is open as long as the handle.
        unsafe { BorrowedFd::borrow_raw((self.functions.get_selectable_fd)(self.handle)) }
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<ReceiveResult> {
        let (mut header, mut bytes) = (ptr::null_mut(), ptr::null());
        // SAFETY: two valid locations for pointers.
        match unsafe { (self.functions.next_ex)(self.handle, &raw mut header, &raw mut bytes) } {
            1 => {
                // SAFETY: the function returns 1 after it has set both; they are valid until its
                // next call.
                let frame =
                    unsafe { std::slice::from_raw_parts(bytes, (*header).captured as usize) };
                let Some(room) = buffer.get_mut(..frame.len()) else {
                    return Ok(ReceiveResult::Malformed);
                };
                room.copy_from_slice(frame);
                Ok(ReceiveResult::Frame(frame.len(), OffloadedWork::default()))
            }
            0 => Ok(ReceiveResult::Nothing),
            _ => Err(io::Error::other(self.error())),
        }
    }

    fn send(&mut self, frame: &Frame<'_>) -> io::Result<TxStatus> {
        assert!(frame.rest.is_empty(), "what is sent here is in one piece");
        let bytes = frame.head;
        // SAFETY: valid bytes, which are only read.
        match unsafe { (self.functions.inject)(self.handle, bytes.as_ptr().cast(), bytes.len()) } {
            // libpcap gives no reason; usually a queue is full.
            ..0 => Ok(TxStatus::Refused),
            _ => Ok(TxStatus::Done),
        }
    }

    fn dropped_before(&self) -> u64 {
        let mut counts = Counts::default();
        // SAFETY: a valid location for the result.
        let known = unsafe { (self.functions.stats)(self.handle, &raw mut counts) } >= 0;
        if known { counts.dropped.into() } else { 0 }
    }
}

impl Drop for PcapPort {
    fn drop(&mut self) {
        // SAFETY: the only handle, which is not used after this.
        unsafe { (self.functions.close)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::Cable;
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use timeloom_time::Instant;

    #[test]
    fn a_frame_comes_to_the_other_end_alone() {
        let cable = Cable::new().expect("as root");
        let mut ports = cable
            .captures()
            .expect("tshark is installed, and libpcap with it");
        let sent = [7; 60];
        let frame = Frame {
            at: Instant::ZERO,
            first_bit: Instant::ZERO,
            head: &sent,
            rest: &[],
            offload: OffloadedWork::default(),
        };
        assert_eq!(ports[0].send(&frame).expect("open"), TxStatus::Done);
        let mut buffer = vec![0; LARGE];
        loop {
            let mut wanted = [PollFd::from_borrowed_fd(
                ports[1].descriptor(),
                PollFlags::IN,
            )];
            poll(&mut wanted, None).expect("a descriptor");
            match ports[1].receive(&mut buffer).expect("open") {
                // A kernel may send frames of its own when an interface comes up.
                ReceiveResult::Frame(length, _) if buffer[..length] != sent => {}
                ReceiveResult::Frame(..) => break,
                other => assert_eq!(other, ReceiveResult::Nothing),
            }
        }
        while let ReceiveResult::Frame(length, _) = ports[0].receive(&mut buffer).expect("open") {
            assert_ne!(buffer[..length], sent, "what we send does not come back");
        }
        assert_eq!(ports[1].dropped_before(), 0);
    }
}
