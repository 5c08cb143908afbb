//! Replacement of the kernel's vDSO by the image, wherever a new program may look for it.
//!
//! Two copies of the auxiliary vector announce the vDSO: one on the stack, and one that the kernel
//! keeps (`PR_GET_AUXV`, `/proc/PID/auxv`), which can be changed only with a privilege. If a
//! program finds the kernel's vDSO nevertheless, that vDSO jumps to the image.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timeloom_abi::VDSO_ADDRESS;

use crate::arch::{self, Registers};
use crate::enter::auxv;
use crate::enter::image::Image;
use crate::enter::inject::Injector;
use crate::enter::kernel_vdso::{KernelVdso, Redirection};
use crate::error::GuestError;
use crate::linux::ptrace::Tracee;

impl Injector {
    /// Creates an injector that maps `image` into programs.
    pub(crate) fn new(image: Image, emulates_tsc: bool) -> Self {
        // The kernel maps the same vDSO into every program, including this one. (If it was booted
        // with `vdso=0`, it maps none.)
        let (redirection, remark) = match KernelVdso::of(std::process::id() as i32) {
            Err(_) => (None, None),
            Ok(own) => match Redirection::plan(&own, &image) {
                Err(error) => (None, Some(stays(&error.to_string()))),
                Ok(plan) if plan.strangers.is_empty() => (Some(plan), None),
                Ok(plan) => {
                    let unknown = plan.strangers.join(", ");
                    let remark = stays(&format!("it has unknown functions ({unknown})"));
                    (Some(plan), Some(remark))
                }
            },
        };
        Self {
            image,
            emulates_tsc,
            redirection,
            remark: remark.map_or_else(OnceLock::new, OnceLock::from),
            expects_filters: AtomicBool::new(false),
            has_remarked: AtomicBool::new(false),
        }
    }

    /// Returns a message about functions of the kernel's vDSO that still return the machine's time,
    /// if there are any. Later calls return `None`.
    pub(crate) fn take_remark(&self) -> Option<String> {
        let remark = self.remark.get()?;
        (!self.has_remarked.swap(true, Relaxed)).then(|| remark.clone())
    }

    /// Records that the kernel does not let the vDSO's data be unmapped
    /// (CONFIG_MSEAL_SYSTEM_MAPPINGS).
    pub(crate) fn remark_on_sealed_data(&self) {
        let why = "this kernel does not allow unmapping its data";
        self.remark.get_or_init(|| stays(why));
    }

    /// Replaces the vDSO by the image in a program that is stopped before its first instruction.
    /// `base` are its registers.
    pub(super) fn replace_vdso(
        &self,
        tracee: &mut Tracee,
        base: &Registers,
        stack: u64,
    ) -> Result<(), GuestError> {
        let pid = tracee.pid();
        let changing = || GuestError::system(format!("changing the vDSO of process {pid}"));
        let vector = edit_auxiliary_vector(tracee, stack)?;
        if let (Some(start), Some(plan)) = (vector.kernels_vdso, &self.redirection) {
            plan.apply(tracee, start).map_err(changing())?;
            for pages in plan.data_of(start) {
                let args = [pages.start, pages.end - pages.start, 0, 0, 0, 0];
                let result = tracee.syscall(base, self.image.syscall, libc::SYS_munmap, args);
                if result.map_err(changing())? != 0 {
                    self.remark_on_sealed_data();
                }
            }
        }
        if let Some((at, length)) = vector.place {
            let args = [PR_SET_MM, PR_SET_MM_AUXV, at, length, 0, 0];
            // This needs CAP_SYS_RESOURCE. Without it, such programs reach the image by the
            // kernel's vDSO, which takes longer but is correct.
            tracee
                .syscall(base, self.image.syscall, libc::SYS_prctl, args)
                .map_err(changing())?;
        }
        Ok(())
    }
}

fn stays(why: &str) -> String {
    format!(
        "programs that find the kernel's vDSO by methods of their own may see the machine's time: \
         {why}"
    )
}

/// Auxiliary vector on the stack of a new program.
struct Vector {
    /// Original value of AT_SYSINFO_EHDR.
    kernels_vdso: Option<u64>,
    /// Address of the vector, and its size in bytes.
    place: Option<(u64, u64)>,
}

/// Sets AT_SYSINFO_EHDR to the vDSO of the image. If the vector has an entry for the minimum size
/// of a signal stack, sets that as well.
fn edit_auxiliary_vector(tracee: &Tracee, stack: u64) -> Result<Vector, GuestError> {
    let pid = tracee.pid();
    let failed = || GuestError::system(format!("reading the auxiliary vector of process {pid}"));
    let words = read_words(pid, stack, INITIAL_STACK_WORDS);
    let word = |index: usize| match words.get(index) {
        Some(&word) => Ok(word),
        None => tracee.peek(stack + 8 * index as u64).map_err(failed()),
    };
    // Without a vDSO all clock reads trap, and return virtual time.
    let mut kernels_vdso = None;
    if let Some(at) = auxv::vdso_entry(word)? {
        kernels_vdso = Some(word(at)?);
        tracee
            .poke(stack + 8 * at as u64, VDSO_ADDRESS)
            .map_err(failed())?;
    }
    if arch::TELLS_SIGNAL_STACK
        && let Some(at) = auxv::entry(auxv::AT_MINSIGSTKSZ, word)?
    {
        // The stack must fit a handler of the program, and within it the image's handler.
        let least = word(at)?
            .saturating_mul(2)
            .saturating_add(arch::HANDLER_STACK);
        tracee
            .poke(stack + 8 * at as u64, least)
            .map_err(failed())?;
    }
    let place = auxv::whole(word)?.map(|words| {
        let at = stack + 8 * words.start as u64;
        (at, 8 * words.len() as u64)
    });
    Ok(Vector {
        kernels_vdso,
        place,
    })
}

/// Number of words that most initial stacks have. One call reads them; further words are read one
/// by one.
const INITIAL_STACK_WORDS: usize = 512;

fn read_words(pid: i32, address: u64, count: usize) -> Vec<u64> {
    let mut words = vec![0u64; count];
    let local = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: 8 * count,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: 8 * count,
    };
    // SAFETY: `local` describes `words`; the kernel checks the remote address.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    words.truncate(usize::try_from(read).unwrap_or(0) / 8);
    words
}

const PR_SET_MM: u64 = libc::PR_SET_MM as u64;
const PR_SET_MM_AUXV: u64 = libc::PR_SET_MM_AUXV as u64;
