//! Mapping of the image and the clock page into the new program at every exec.
//!
//! At an exec the kernel has just built a new address space, and no code of the program has run.
//! The process is stopped at its first instruction (of the dynamic linker, or of the program itself
//! if it is static), and its stack holds the auxiliary vector, whose entry AT_SYSINFO_EHDR gives
//! the address of the vDSO. The supervisor maps its own vDSO, replaces the entry, installs the
//! handler of SIGSYS, and resumes the process.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use timeloom_abi::{IMAGE_ADDRESS, PAGE_ADDRESS, PAGE_SIZE, VDSO_ADDRESS, VDSO_BYTES};

use crate::arch::{self, Registers};
use crate::enter::image::Image;
use crate::enter::kernel_vdso::Redirection;
use crate::error::GuestError;
use crate::linux::ptrace::{Stop, Tracee};
use crate::supervise::notify::{Answer, Listener, Notification};

/// Objects that are mapped into every guest of a session, in addition to its host's clock page.
pub(crate) struct Injector {
    pub(crate) image: Image,
    /// True if programs see an emulated time-stamp counter.
    pub(crate) emulates_tsc: bool,
    /// Changes by which the kernel's vDSO leads to the image; `None` if it cannot be redirected on
    /// this machine.
    pub(super) redirection: Option<Redirection>,
    /// Message for the user: functions of the kernel's vDSO that still return the machine's time.
    pub(super) remark: OnceLock<String>,
    /// True if programs may already have seccomp filters of their own at an exec.
    pub(super) expects_filters: AtomicBool,
    /// True if the user has been informed by `remark`.
    pub(super) has_remarked: AtomicBool,
}

/// Objects to map into one new program.
#[derive(Clone, Copy)]
pub(crate) struct Outfit<'a> {
    /// Clock page of the program's host.
    pub(crate) page: BorrowedFd<'a>,
    /// File of the image.
    pub(crate) image: BorrowedFd<'a>,
    /// True if the image replaces the kernel's vDSO.
    pub(crate) is_vdso: bool,
}

/// Outcome of an exec that the supervisor has followed.
#[derive(Debug)]
pub(crate) enum ExecOutcome {
    /// The program runs under the virtual clock.
    Running,
    /// The exec failed as natively (no such file, …), and the caller received the error.
    Failed,
    /// The process ended during the exec.
    Gone,
}

impl Injector {
    /// Records that programs may already have seccomp filters of their own at an exec. Following
    /// such an exec takes an additional stop.
    pub(crate) fn expect_filters(&self) {
        self.expects_filters.store(true, Ordering::SeqCst);
    }

    /// Lets the exec of `asker`, which waits for the supervisor's answer, happen, and prepares the
    /// new program. When all is ready and the process is still stopped before its first
    /// instruction, calls `before_release` with the process.
    ///
    /// # Errors
    /// Fails if the new program could not be prepared. It was then killed, since it would run by
    /// the machine's clock.
    pub(crate) fn follow_exec(
        &self,
        listener: &Listener,
        asker: &Notification,
        outfit: Outfit<'_>,
        before_release: impl FnOnce(i32, &ExecOutcome) -> Result<(), GuestError>,
    ) -> Result<ExecOutcome, GuestError> {
        // The descriptors persist through the exec; after it they are mapped and closed.
        let given = listener.give(asker, outfit.page, false).and_then(|page| {
            listener
                .give(asker, outfit.image, false)
                .map(|image| [page, image])
        });
        let descriptors = match given {
            Ok(descriptors) => descriptors,
            Err(source) => {
                // The process is dead, or has no descriptor left. The exec then fails as it does if
                // the program cannot be opened for that reason.
                listener.answer(
                    asker,
                    Answer::Error(source.raw_os_error().unwrap_or(libc::EAGAIN)),
                );
                return Ok(ExecOutcome::Failed);
            }
        };
        let mut tracee = match Tracee::seize(asker.thread, || listener.is_waiting(asker)) {
            Ok(tracee) => tracee,
            Err(source) => {
                listener.answer(asker, Answer::Error(libc::EPERM));
                return Err(GuestError::System {
                    doing: format!(
                        "attaching to process {} for its exec (is a debugger attached to it?)",
                        asker.thread
                    ),
                    source,
                });
            }
        };
        // The process waits killably, so the interrupt takes effect when it returns to user mode:
        // after the exec, or after its failure.
        let _ = tracee.interrupt();
        listener.answer(asker, Answer::Continue);

        let mut executed = false;
        loop {
            match tracee.wait_through_exec() {
                Stop::Exec => {
                    executed = true;
                    // Any stop consumes the requested one. Request it again, since the exec has not
                    // returned yet.
                    let _ = tracee.interrupt();
                }
                Stop::Interrupted => break,
                Stop::Signal(signal) => tracee.hold_signal(signal),
                Stop::Gone => return Ok(ExecOutcome::Gone),
            }
            if tracee.proceed().is_err() {
                return Ok(ExecOutcome::Gone);
            }
        }
        if !executed {
            close_descriptors(&mut tracee, self.image.syscall, descriptors);
            return before_release(tracee.pid(), &ExecOutcome::Failed)
                .map(|()| ExecOutcome::Failed);
        }
        let prepared = self.prepare(&mut tracee, descriptors, outfit.is_vdso);
        match prepared.and_then(|()| before_release(tracee.pid(), &ExecOutcome::Running)) {
            Ok(()) => Ok(ExecOutcome::Running),
            // The process was killed during the exec, for example at the end of a run.
            Err(_) if tracee.is_ending() => Ok(ExecOutcome::Gone),
            Err(error) => {
                // SAFETY: the process is our own tracee.
                unsafe { libc::kill(tracee.pid(), libc::SIGKILL) };
                Err(error)
            }
        }
    }

    pub(super) fn prepare(
        &self,
        tracee: &mut Tracee,
        [page, image]: [i32; 2],
        is_vdso: bool,
    ) -> Result<(), GuestError> {
        let pid = tracee.pid();
        refuse_32_bit(pid)?;
        let failed = |what: &str| GuestError::system(format!("{what} of process {pid}"));
        let base = tracee
            .registers()
            .map_err(failed("reading the registers"))?;

        // The image is not in the process yet, so the place of the program's first instruction is
        // used for a system call instruction.
        let at = arch::instruction(&base);
        let entry = tracee
            .peek(at)
            .map_err(failed("reading the first instruction"))?;
        tracee
            .poke(at, arch::with_syscall(entry))
            .map_err(failed("writing the first instruction"))?;
        self.map(tracee, &base, at, page, image)?;
        tracee
            .poke(at, entry)
            .map_err(failed("restoring the first instruction"))?;

        // The memory below the stack pointer and its red zone is not in use yet.
        let stack = arch::stack(&base);
        self.install_handler(tracee, &base, (stack - 1024) & !15)?;
        if is_vdso {
            self.replace_vdso(tracee, &base, stack)?;
        }
        let begins_at = if is_gdb(pid) {
            self.add_gdb_arguments(tracee, stack)
                .map_err(failed("adding to the arguments"))?
        } else {
            stack
        };
        tracee
            .set_registers(&arch::with_stack(&base, begins_at))
            .map_err(failed("restoring the registers"))
    }

    /// Inserts the arguments for gdb after the program's name. Returns the new stack pointer.
    fn add_gdb_arguments(&self, tracee: &Tracee, stack: u64) -> std::io::Result<u64> {
        let added = self.image.gdb_arguments;
        let begin = stack - 8 * added.len() as u64;
        let [count, name] = [tracee.peek(stack)?, tracee.peek(stack + 8)?];
        let words = [count + added.len() as u64, name, added[0], added[1]];
        let places = (begin..).step_by(8);
        let mut each = places.zip(words);
        each.try_for_each(|(place, word)| tracee.poke(place, word))?;
        Ok(begin)
    }

    /// Maps the image, the clock page and the vDSO of the image's file at their fixed addresses,
    /// and closes the descriptors. `instruction` is the address of a system call instruction.
    ///
    /// A filter inherited from the previous program lets calls from the image pass, and possibly no
    /// other calls. The first call is therefore made to appear as a call from the image, and all
    /// later calls are made from there.
    pub(crate) fn map(
        &self,
        tracee: &mut Tracee,
        base: &Registers,
        instruction: u64,
        page: i32,
        image: i32,
    ) -> Result<(), GuestError> {
        let read = libc::PROT_READ as u64;
        let execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let shared = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        // A program that writes to its vDSO gets a private copy, as with the kernel's vDSO.
        let private = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        // Offset of the image in the file.
        let offset = IMAGE_ADDRESS - VDSO_ADDRESS;
        let bytes = self.image.length as u64 - offset;
        let file = image as u64;
        let args = [IMAGE_ADDRESS, bytes, execute, shared, file, offset];
        let own = self.image.syscall;
        let claimed = own + arch::SYSCALL.len() as u64;
        let mapped = if self.expects_filters.load(Ordering::SeqCst) {
            tracee.syscall_claiming((base, instruction, claimed), libc::SYS_mmap, args)
        } else {
            tracee.syscall(base, instruction, libc::SYS_mmap, args)
        };
        tracee.checked("mapping the image", mapped)?;
        let bytes = PAGE_SIZE as u64;
        let args = [PAGE_ADDRESS, bytes, read, shared, page as u64, 0];
        let map = ("mapping the clock page", libc::SYS_mmap);
        tracee.syscall_checked(base, own, map, args)?;
        let args = [VDSO_ADDRESS, VDSO_BYTES, execute, private, file, 0];
        let map = ("mapping the vDSO", libc::SYS_mmap);
        tracee.syscall_checked(base, own, map, args)?;
        // The kernel gives out the lowest free descriptors, which are usually adjacent: one call
        // then closes both.
        let ranges = match image == page + 1 {
            true => [Some([page, image]), None],
            false => [Some([page; 2]), Some([image; 2])],
        };
        for [first, last] in ranges.into_iter().flatten() {
            let close = ("closing descriptors", libc::SYS_close_range);
            tracee.syscall_checked(base, own, close, [first as u64, last as u64, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Installs the handler of SIGSYS and, if the time-stamp counter traps, that of SIGSEGV.
    /// `scratch` is the address of 32 writable bytes of the process.
    pub(crate) fn install_handler(
        &self,
        tracee: &mut Tracee,
        base: &Registers,
        scratch: u64,
    ) -> Result<(), GuestError> {
        // SA_RESTART is set because an interrupt that arrives late must not interrupt another call.
        let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64
            | (libc::SA_RESTART | SA_RESTORER) as u64;
        let Image {
            handler,
            kept,
            restorer,
            ..
        } = self.image;
        let action = [handler, flags, restorer, HANDLER_MASK];
        self.set_action(tracee, base, libc::SIGSYS, scratch, action)?;
        // If SIGSYS was ignored when the program was started outside the session, it is ignored
        // here. The call has stored the earlier action.
        let earlier = tracee.peek(scratch).map_err(GuestError::system(format!(
            "reading from process {}",
            tracee.pid()
        )))?;
        if earlier == libc::SIG_IGN as u64 {
            let ignored = [libc::SIG_IGN as u64, 0, 0, 0];
            self.set_action(tracee, base, SIGSYS_STAND_IN, scratch, ignored)?;
        }
        if self.emulates_tsc {
            // The field of the restorer holds the program's own action, which is the default one.
            // See `intercepted.rs` of the image.
            let action = [kept, flags, libc::SIG_DFL as u64, 0];
            self.set_action(tracee, base, libc::SIGSEGV, scratch, action)?;
        }
        // An inherited mask may contain SIGSYS if the program was started from outside the session.
        tracee
            .exchange_in_mask(libc::SIGSYS, SIGSYS_STAND_IN)
            .map_err(GuestError::system(format!(
                "unblocking the trap signal in process {}",
                tracee.pid()
            )))
    }

    /// Stores a program's own action of SIGSYS in the format of the image (`wrapped` in
    /// `intercepted.rs`).
    pub(crate) fn keep_action_of_sigsys(
        &self,
        tracee: &mut Tracee,
        base: &Registers,
        scratch: u64,
        [handler, flags, _, mask]: [u64; 4],
    ) -> Result<(), GuestError> {
        let has = |flag: i32, noted: u64| if flags & flag as u64 != 0 { noted } else { 0 };
        let passed = (libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER) as u64;
        let noted = has(libc::SA_SIGINFO, 1) | has(libc::SA_NODEFER, 2);
        let own = (libc::SA_SIGINFO | SA_RESTORER) as u64;
        let sigsys = 1 << (libc::SIGSYS - 1);
        let mask = match mask & sigsys {
            0 => mask,
            _ => mask & !sigsys | 1 << (SIGSYS_STAND_IN - 1),
        };
        let action = match handler as libc::sighandler_t {
            libc::SIG_IGN => [handler, 0, 0, mask],
            _ => [self.image.kept, flags & passed | noted | own, handler, mask],
        };
        self.set_action(tracee, base, SIGSYS_STAND_IN, scratch, action)
    }

    /// Installs a signal action in the tracee, and stores the earlier action at `scratch`.
    /// `rt_sigaction` itself traps, unless it is made by the image's system call instruction.
    fn set_action(
        &self,
        tracee: &mut Tracee,
        base: &libc::user_regs_struct,
        signal: i32,
        scratch: u64,
        action: [u64; 4],
    ) -> Result<(), GuestError> {
        for (index, word) in action.into_iter().enumerate() {
            tracee
                .poke(scratch + 8 * index as u64, word)
                .map_err(GuestError::system(format!(
                    "writing to process {}",
                    tracee.pid()
                )))?;
        }
        let args = [signal as u64, scratch, scratch, 8, 0, 0];
        let call = ("installing a handler of ours", libc::SYS_rt_sigaction);
        tracee
            .syscall_checked(base, self.image.syscall, call, args)
            .map(drop)
    }
}

/// Returns true if a process executes gdb. Such a process gets arguments by which gdb passes each
/// SIGSYS on to the image, so that users need not configure every gdb accordingly.
fn is_gdb(pid: i32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    is_name_of_gdb(&program.file_name().unwrap_or_default().to_string_lossy())
}

fn is_name_of_gdb(name: &str) -> bool {
    matches!(name, "gdb" | "gdb-multiarch" | "gdb.minimal") || name.ends_with("-gdb")
}

/// Returns an error for a 32-bit program: the image is 64-bit, so such a program would run by the
/// machine's clock.
fn refuse_32_bit(pid: i32) -> Result<(), GuestError> {
    use std::io::Read;
    let path = format!("/proc/{pid}/exe");
    let mut head = [0u8; 5];
    let known = std::fs::File::open(&path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok();
    if known && head[..4] == *b"\x7fELF" && head[4] == 1 {
        let program = std::fs::read_link(&path).unwrap_or_default();
        return Err(GuestError::Unsupported(format!(
            "`{}` is a 32-bit program; the virtual clock covers 64-bit ones only, so it was stopped",
            program.display()
        )));
    }
    Ok(())
}

/// Closes descriptors in the tracee. `image` is the address of the image's system call instruction.
fn close_descriptors(tracee: &mut Tracee, image: u64, descriptors: [i32; 2]) {
    // Errors are ignored, since the exec has failed: two additional descriptors would do no harm,
    // except to a program that relies on their numbers.
    let Ok(base) = tracee.registers() else { return };
    let is_there = tracee
        .peek(image)
        .is_ok_and(|word| word.to_ne_bytes().starts_with(&arch::SYSCALL));
    let instruction = if is_there {
        image
    } else {
        // Before the first exec of a launched program there is no image. The thread is stopped
        // after the system call instruction of its own call.
        arch::instruction(&base) - arch::SYSCALL.len() as u64
    };
    for descriptor in descriptors {
        let _ = tracee.syscall(
            &base,
            instruction,
            libc::SYS_close,
            [descriptor as u64, 0, 0, 0, 0, 0],
        );
    }
    let _ = tracee.set_registers(&base);
}

const SA_RESTORER: i32 = 0x0400_0000;
/// Signal under which the kernel stores the program's own state of SIGSYS (`intercepted.rs` of the
/// image).
pub(crate) const SIGSYS_STAND_IN: i32 = libc::SIGSTKFLT;
/// Signals blocked while the image's handler runs: all except SIGSYS and those by which the
/// processor reports faults. See `handle_interrupt` in the image.
const HANDLER_MASK: u64 = {
    let stay = [
        libc::SIGSYS,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
    ];
    let mut mask = u64::MAX;
    let mut index = 0;
    while index < stay.len() {
        mask &= !(1 << (stay[index] - 1));
        index += 1;
    }
    mask
};
