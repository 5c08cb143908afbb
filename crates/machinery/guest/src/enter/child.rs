//! The child's side of the fork, up to the exec of the program.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::linux::descriptor::send_descriptor;
use crate::time_files::View;

use super::prepare::Prepared;
use super::spec::{CommandSpec, Output};

pub(super) const STEP_DIRECTORY: i32 = 1;
pub(super) const STEP_NETWORK: i32 = 2;
pub(super) const STEP_STREAMS: i32 = 3;
pub(super) const STEP_FILTER: i32 = 4;
pub(super) const STEP_EXEC: i32 = 5;
pub(super) const STEP_TSC: i32 = 6;
pub(super) const STEP_RIGHTS: i32 = 7;
pub(super) const STEP_ROOT: i32 = 8;
pub(super) const STEP_IDENTITY: i32 = 9;

/// Errors of the child. It writes them to the memory that it shares with its parent, which reads
/// them when the child has executed the program or has ended.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// Number of the step that failed; the errno follows.
    step: AtomicI32,
    errno: AtomicI32,
    /// Errno of the failure because of which the child sees the machine's `/proc/uptime` and
    /// `/proc/stat`.
    time_files: AtomicI32,
}

impl Problems {
    /// Returns the failed step and its error if the program was not started because of it.
    pub(super) fn fatal(&self) -> Option<(i32, io::Error)> {
        let step = self.step.load(Ordering::SeqCst);
        let error = || io::Error::from_raw_os_error(self.errno.load(Ordering::SeqCst));
        (step != 0).then(|| (step, error()))
    }

    /// Returns the error because of which the program sees the machine's `/proc/uptime` and
    /// `/proc/stat`; `None` if it does not.
    pub(super) fn time_files(&self) -> Option<io::Error> {
        let errno = self.time_files.load(Ordering::SeqCst);
        (errno != 0).then(|| io::Error::from_raw_os_error(errno))
    }
}

/// Runs the child's side of the fork. The child shares its parent's memory and the calling thread's
/// errno. It has its own descriptors, signals, limits and credentials.
///
/// After a change of user, the new user could access our memory through the child. The kernel
/// therefore makes the memory undumpable first, permanently, so that only root may attach.
///
/// # Safety
/// Call this only in a freshly forked child. It never returns, and makes only system calls.
pub(super) unsafe fn child(
    spec: &CommandSpec,
    prepared: &Prepared,
    view: Option<&View>,
    [supervisors, socket]: [RawFd; 2],
    problems: &Problems,
) -> ! {
    // SAFETY: errno is that of the thread that waits for this child.
    let errno = || unsafe { *libc::__errno_location() };
    let fail = |step: i32| -> ! {
        problems.errno.store(errno(), Ordering::SeqCst);
        problems.step.store(step, Ordering::SeqCst);
        // SAFETY: the call ends this process, which has nothing to clean up.
        unsafe { libc::_exit(127) }
    };
    // SAFETY: each call gets pointers to prepared data, which is alive.
    unsafe {
        // Only the supervisor may hold the socket on which it receives the listener. If the child
        // held it too, a listener in transit to a supervisor that dies would persist, and the exec
        // would wait for its answer for ever.
        libc::close(supervisors);
        timeloom_sys::limit::restore_descriptors();
        let_signals_through();

        if let Some(network) = &spec.network
            && libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) != 0
        {
            fail(STEP_NETWORK);
        }
        if let Some(root) = &spec.root
            && let Err(error) = root.enter()
        {
            *libc::__errno_location() = error.raw_os_error();
            fail(STEP_ROOT);
        }
        if let Some(identity) = &spec.identity
            && spec.root.is_none()
            && let Err(error) = identity.enter()
        {
            *libc::__errno_location() = error.raw_os_error();
            fail(STEP_IDENTITY);
        }
        if let Some(view) = view
            && let Err(error) = view.enter()
        {
            problems
                .time_files
                .store(error.raw_os_error(), Ordering::SeqCst);
        }
        if let Output::Streams {
            streams,
            is_terminal,
        } = &spec.output
        {
            // A session started by nohup ignores SIGHUP. A command that was started from a terminal
            // must end with the terminal.
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            let numbers = [0, 1, 2];
            let done = streams
                .iter()
                .zip(numbers)
                .all(|(stream, number)| libc::dup2(stream.as_raw_fd(), number) >= 0)
                && libc::setsid() >= 0
                && (!is_terminal || libc::ioctl(0, libc::TIOCSCTTY, 0) == 0);
            if !done {
                fail(STEP_STREAMS);
            }
        }
        if let Output::To(descriptor) = &spec.output {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            let done = libc::dup2(nothing, 0) >= 0
                && libc::dup2(descriptor.as_raw_fd(), 1) >= 0
                && libc::dup2(descriptor.as_raw_fd(), 2) >= 0
                && libc::close(nothing) == 0
                && libc::setsid() >= 0;
            if !done {
                fail(STEP_STREAMS);
            }
        }
        let is_trusted = matches!(spec.output, Output::Inherit) && spec.rights.is_none();
        if matches!(spec.output, Output::Inherit) && !is_trusted && libc::setsid() < 0 {
            fail(STEP_STREAMS);
        }
        // A program that our user starts by hand keeps open descriptors, as under `env` or `nice`.
        // Any other program gets only its standard streams, and no other descriptor of ours or our
        // parent's.
        if !is_trusted && libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOEXEC) != 0 {
            fail(STEP_STREAMS);
        }
        // All steps that need our privileges are done, except the installation of the filter. That
        // step needs no privilege if no exec gains any.
        if let Some(rights) = &spec.rights {
            if let (Output::To(descriptor), Some(account)) = (&spec.output, rights.account()) {
                // Otherwise the program could not open /dev/stderr, as it can with inherited
                // streams.
                libc::fchown(descriptor.as_raw_fd(), account.user, account.group);
            }
            // The terminal was created for this program alone.
            if let (
                Output::Streams {
                    streams: [input, ..],
                    is_terminal: true,
                },
                Some(account),
            ) = (&spec.output, rights.account())
            {
                libc::fchown(input.as_raw_fd(), account.user, account.group);
            }
        }
        // A link of a container image, or of a script's interpreter, could lead through one of
        // these descriptors to the machine's files: `/proc/self/fd/3`. The kernel closes the
        // descriptors only after it has found the file to execute.
        if spec.root.is_some() && !close_all_but_streams_and(socket) {
            fail(STEP_ROOT);
        }
        if let Some(directory) = &prepared.directory
            && libc::chdir(directory.as_ptr()) != 0
        {
            fail(STEP_DIRECTORY);
        }
        if let Some(rights) = &spec.rights
            && let Err(error) = rights.take()
        {
            *libc::__errno_location() = error.raw_os_error();
            fail(STEP_RIGHTS);
        }
        // All threads and children of this process inherit the setting, and it persists through an
        // exec.
        if prepared.emulates_tsc && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) != 0 {
            fail(STEP_TSC);
        }
        let listener = install_filter(&prepared.filter);
        if listener < 0 {
            fail(STEP_FILTER);
        }
        // From here on, make no calls that the filter traps: there is no handler yet.
        let [socket, kept] = [socket, listener].map(|fd| BorrowedFd::borrow_raw(fd));
        send_descriptor(socket, kept);
        libc::close(listener);
        libc::execve(
            prepared.program.as_ptr(),
            prepared.arguments.as_ptr(),
            prepared.environment.as_ptr(),
        );
        fail(STEP_EXEC)
    }
}

/// Closes all descriptors except 0, 1, 2 and `kept`. Returns true on success.
///
/// # Safety
/// Call this only in the forked child, whose descriptors are not its parent's.
unsafe fn close_all_but_streams_and(kept: RawFd) -> bool {
    let kept = kept as libc::c_uint;
    let close = |from: libc::c_uint, to: libc::c_uint| {
        // SAFETY: the closed descriptors belong to this process alone, and are not used again.
        from > to || unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } == 0
    };
    close(3, kept - 1) && close(kept + 1, libc::c_uint::MAX)
}

/// Resets all signal handlers of this program and unblocks all signals. All signals are blocked
/// until the handlers are reset: a handler would run in the memory that the child shares.
///
/// # Safety
/// Call this only in the forked child.
unsafe fn let_signals_through() {
    // SAFETY: the calls read and write structures on our stack.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            let mut action: libc::sigaction = std::mem::zeroed();
            // The call fails for the two signals that the C library reserves for its own threads.
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            let is_handled = known && !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
            // The Rust runtime ignores SIGPIPE, and a session may have been started with the other
            // signals ignored. Programs expect the default action of all of them.
            let is_expected = matches!(
                signal,
                libc::SIGPIPE | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM
            );
            if is_handled || is_expected {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Installs the filter for the calling thread. Returns the descriptor of its listener.
///
/// # Safety
/// Call this only in the forked child.
unsafe fn install_filter(filter: &[libc::sock_filter]) -> RawFd {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    let flags = FILTER_NEW_LISTENER | FILTER_SPEC_ALLOW | FILTER_WAIT_KILLABLE;
    // SAFETY: `program` describes `filter`.
    unsafe {
        let install = || {
            libc::syscall(
                libc::SYS_seccomp,
                SET_MODE_FILTER,
                flags,
                &raw const program,
            ) as RawFd
        };
        let listener = install();
        if listener >= 0 || *libc::__errno_location() != libc::EACCES {
            return listener;
        }
        // Without privileges the kernel requires this setting, by which no exec gains privileges.
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        install()
    }
}

const CLOEXEC: libc::c_uint = libc::CLOSE_RANGE_CLOEXEC;
const SET_MODE_FILTER: u32 = 1;
/// SECCOMP_FILTER_FLAG_SPEC_ALLOW. Without this flag, speculation is restricted and every call is
/// slower.
const FILTER_SPEC_ALLOW: u32 = 1 << 2;
const FILTER_NEW_LISTENER: u32 = 1 << 3;
/// SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV: once the supervisor has received a request, only fatal
/// signals interrupt the waiting thread.
const FILTER_WAIT_KILLABLE: u32 = 1 << 5;
