//! Starting a program under the virtual clock: fork, filter, exec.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::Host;
use crate::error::{GuestError, check};
use crate::filter;
use crate::time_files::{MachineFiles, View};

/// A program to run, and where.
pub struct CommandSpec {
    /// The program and its arguments. A name without a slash is looked up.
    pub argv: Vec<OsString>,
    /// Variables to set on top of ours.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; ours if none.
    pub directory: Option<PathBuf>,
    /// Where standard output and error go.
    pub output: Output,
    /// Network namespace to enter.
    pub network: Option<OwnedFd>,
    /// Whose clock it lives by; the session's own host if none.
    pub host: Option<Arc<Host>>,
}

impl CommandSpec {
    /// Runs `argv` with our own environment, directory, streams and network.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            directory: None,
            output: Output::Inherit,
            network: None,
            host: None,
        }
    }
}

/// Where a program's streams go.
#[derive(Debug)]
pub enum Output {
    /// As ours, standard input too.
    Inherit,
    /// Both to this descriptor (a pipe or file); standard input is empty, and
    /// the program leads a process group of its own, away from the terminal's
    /// Ctrl-C.
    To(OwnedFd),
}

/// A program that was started. Dropping it does not end it.
#[derive(Debug)]
pub struct Guest {
    pid: i32,
    pidfd: OwnedFd,
}

impl Guest {
    /// Process identifier.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end. Returns the exit status as a shell reports it: the
    /// code, or 128 + the signal's number.
    pub fn wait(&self) -> i32 {
        self.wait_for(None).expect("waited without limit")
    }

    /// As [`Self::wait`], for at most `limit`; `None` when it still runs.
    pub fn wait_for(&self, limit: Option<std::time::Duration>) -> Option<i32> {
        // The pidfd first: a plain `waitpid` would also take the ptrace stops
        // that belong to the thread which follows an exec.
        let mut ended = libc::pollfd {
            fd: self.pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let begun = std::time::Instant::now();
        loop {
            let left = limit.map_or(-1, |limit| {
                limit
                    .saturating_sub(begun.elapsed())
                    .as_millis()
                    .min(1 << 30) as i32
            });
            // SAFETY: one pollfd, ours.
            let ready = unsafe { libc::poll(&raw mut ended, 1, left) };
            match ready {
                1 => break,
                0 => return None,
                _ => {} // interrupted by a signal of ours
            }
        }
        let mut status = 0;
        // SAFETY: writes `status`. The process has ended, so this returns.
        let result = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
        if result != self.pid {
            // Reaped already by an earlier call.
            return Some(0);
        }
        Some(if libc::WIFSIGNALED(status) {
            128 + libc::WTERMSIG(status)
        } else {
            libc::WEXITSTATUS(status)
        })
    }

    /// Sends a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: our own child, not reaped before `wait`.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.pidfd.as_raw_fd(),
                number,
                0,
                0,
            )
        };
    }
}

/// Everything the child needs, made before the fork: after it, in a process
/// that had several threads, nothing may allocate.
struct Prepared {
    program: CString,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    directory: Option<CString>,
    filter: Vec<libc::sock_filter>,
    /// Whether the time-stamp counter is to trap.
    emulates_tsc: bool,
    /// Strings that the pointer lists point into.
    _strings: Vec<CString>,
}

/// What programs of a session have in common.
pub(crate) struct Conditions<'a> {
    /// Whether the time-stamp counter is to trap.
    pub(crate) emulates_tsc: bool,
    /// The files that tell time, if they are not the machine's.
    pub(crate) view: Option<View>,
    /// Called with messages for the user.
    pub(crate) warn: &'a dyn Fn(String),
}

/// Starts `spec`. `on_listener` is given the new process and the listener of
/// its filter, and must begin to serve it at once: the exec waits for its
/// answer.
pub(crate) fn launch(
    spec: &CommandSpec,
    how: &Conditions<'_>,
    on_listener: impl FnOnce(i32, OwnedFd),
) -> Result<Guest, GuestError> {
    let prepared = prepare(spec, how.emulates_tsc)?;
    let (ours, theirs) = socket_pair()?;
    let (mut failure, failure_theirs) = pipe()?;

    // SAFETY: the child only makes system calls on what was prepared.
    let pid = check(unsafe { libc::fork() }.into(), "forking")? as i32;
    if pid == 0 {
        // SAFETY: we are the child.
        unsafe {
            child(
                spec,
                &prepared,
                how.view.as_ref(),
                ours.as_raw_fd(),
                theirs.as_raw_fd(),
                failure_theirs.as_raw_fd(),
            )
        };
    }
    drop((theirs, failure_theirs));
    // SAFETY: no pointers. The child exists, if only as a zombie.
    let pidfd = check(
        unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) },
        "opening a pidfd",
    )?;
    let guest = Guest {
        pid,
        // SAFETY: just created and owned by nobody else.
        pidfd: unsafe { OwnedFd::from_raw_fd(pidfd as RawFd) },
    };

    if let Some(listener) = receive_descriptor(ours.as_raw_fd()) {
        on_listener(pid, listener);
    }
    loop {
        let mut message = [0u8; 8];
        if let Ok(0) = failure.read(&mut message) {
            return Ok(guest); // closed by the exec
        }
        let [step, errno] =
            [&message[..4], &message[4..]].map(|b| i32::from_ne_bytes(b.try_into().expect("4")));
        let error = io::Error::from_raw_os_error(errno);
        if step != STEP_TIME_FILES {
            guest.wait();
            return Err(explain(spec, step, error));
        }
        (how.warn)(MachineFiles::Refused(error).to_string());
    }
}

fn explain(spec: &CommandSpec, step: i32, source: io::Error) -> GuestError {
    let program = spec.argv[0].to_string_lossy().into_owned();
    match step {
        STEP_EXEC => GuestError::NoProgram { program, source },
        STEP_DIRECTORY => GuestError::System {
            doing: format!(
                "entering the working directory of `{program}`, {:?}",
                spec.directory
            ),
            source,
        },
        STEP_FILTER => GuestError::Unsupported(format!(
            "this kernel refused the seccomp filter ({source}); Linux 5.19 or later is needed"
        )),
        STEP_TSC => GuestError::Unsupported(format!(
            "this kernel cannot make reads of the time-stamp counter trap ({source}); run without `--tsc emulate`"
        )),
        _ => GuestError::System {
            doing: format!("preparing `{program}` (step {step})"),
            source,
        },
    }
}

fn prepare(spec: &CommandSpec, emulates_tsc: bool) -> Result<Prepared, GuestError> {
    let first = spec
        .argv
        .first()
        .ok_or_else(|| GuestError::Usage("no command was given".into()))?;
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    variables.extend(spec.env.clone());
    let base = spec.directory.as_deref().unwrap_or(Path::new("."));
    let program = resolve(
        first.as_ref(),
        base,
        variables.get(std::ffi::OsStr::new("PATH")),
    );
    let c_string = |bytes: Vec<u8>| {
        CString::new(bytes)
            .map_err(|_| GuestError::Usage("arguments cannot contain a zero byte".into()))
    };
    let mut strings = Vec::new();
    for argument in &spec.argv {
        strings.push(c_string(argument.clone().into_vec())?);
    }
    let count = strings.len();
    for (name, value) in variables {
        let mut text = name.into_vec();
        text.push(b'=');
        text.extend(value.into_vec());
        strings.push(c_string(text)?);
    }
    let pointers = |strings: &[CString]| {
        strings
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<_>>()
    };
    Ok(Prepared {
        program: c_string(program.into_os_string().into_vec())?,
        arguments: pointers(&strings[..count]),
        environment: pointers(&strings[count..]),
        directory: spec
            .directory
            .as_ref()
            .map(|path| c_string(path.as_os_str().as_bytes().to_vec()))
            .transpose()?,
        filter: filter::program(match emulates_tsc {
            true => filter::Guest::EmulatingTsc,
            false => filter::Guest::Launched,
        }),
        emulates_tsc,
        _strings: strings,
    })
}

/// As `execvp`: a name with a slash is a path, relative to the directory in
/// which the program will start; others are looked up.
fn resolve(name: &Path, directory: &Path, path: Option<&OsString>) -> PathBuf {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return name.to_owned();
    }
    std::env::split_paths(path.map_or(std::ffi::OsStr::new("/usr/bin:/bin"), |path| {
        path.as_os_str()
    }))
    .map(|entry| entry.join(name))
    .find(|candidate| {
        let at = if candidate.is_absolute() {
            candidate.clone()
        } else {
            directory.join(candidate)
        };
        let path = CString::new(at.into_os_string().into_vec());
        // SAFETY: a valid C string.
        at_file(&path)
            && path.is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0)
    })
    .unwrap_or_else(|| name.to_owned())
}

fn at_file(path: &Result<CString, std::ffi::NulError>) -> bool {
    path.as_ref()
        .is_ok_and(|path| Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())).is_file())
}

const STEP_DIRECTORY: i32 = 1;
const STEP_NETWORK: i32 = 2;
const STEP_STREAMS: i32 = 3;
const STEP_FILTER: i32 = 4;
const STEP_EXEC: i32 = 5;
const STEP_TSC: i32 = 6;
/// The only one without which it goes on.
const STEP_TIME_FILES: i32 = 7;

/// The child's side of the fork.
///
/// # Safety
/// Only in a freshly forked child: never returns, makes only system calls.
unsafe fn child(
    spec: &CommandSpec,
    prepared: &Prepared,
    view: Option<&View>,
    supervisors: RawFd,
    socket: RawFd,
    failure: RawFd,
) -> ! {
    let tell = |step: i32| {
        // SAFETY: the descriptor is open; errno is this thread's.
        unsafe {
            let errno = *libc::__errno_location();
            let message = [step, errno];
            libc::write(failure, message.as_ptr().cast(), 8);
        }
    };
    let fail = |step: i32| -> ! {
        tell(step);
        // SAFETY: ends this process, which has nothing to tidy up.
        unsafe { libc::_exit(127) }
    };
    // SAFETY: each call gets pointers that were prepared and are alive.
    unsafe {
        // Where the listener is received is the supervisor's alone. Were it held here
        // too, a listener under way to a supervisor that dies would stay, and the exec
        // wait for its answer for ever.
        libc::close(supervisors);
        // The Rust runtime ignores SIGPIPE, and a session may block signals;
        // programs expect neither.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());

        if let Some(network) = &spec.network
            && libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) != 0
        {
            fail(STEP_NETWORK);
        }
        if let Some(view) = view
            && !view.enter()
        {
            tell(STEP_TIME_FILES);
        }
        if let Some(directory) = &prepared.directory
            && libc::chdir(directory.as_ptr()) != 0
        {
            fail(STEP_DIRECTORY);
        }
        if let Output::To(descriptor) = &spec.output {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            let done = libc::dup2(nothing, 0) >= 0
                && libc::dup2(descriptor.as_raw_fd(), 1) >= 0
                && libc::dup2(descriptor.as_raw_fd(), 2) >= 0
                && libc::close(nothing) == 0
                && libc::setpgid(0, 0) == 0;
            if !done {
                fail(STEP_STREAMS);
            }
        }
        // Kept by whatever this process starts or becomes: threads, children and
        // programs executed.
        if prepared.emulates_tsc && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) != 0 {
            fail(STEP_TSC);
        }
        let listener = install_filter(&prepared.filter);
        if listener < 0 {
            fail(STEP_FILTER);
        }
        // From here on no call that the filter traps: there is no handler yet.
        send_descriptor(socket, listener);
        libc::close(listener);
        libc::execve(
            prepared.program.as_ptr(),
            prepared.arguments.as_ptr(),
            prepared.environment.as_ptr(),
        );
        fail(STEP_EXEC)
    }
}

/// Installs the filter for the calling thread; returns the listener.
///
/// # Safety
/// In the forked child only.
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
        // Without privileges the kernel demands that no exec gains any.
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        install()
    }
}

const SET_MODE_FILTER: u32 = 1;
/// Without it, speculation is restricted and every call is slower.
const FILTER_SPEC_ALLOW: u32 = 1 << 2;
const FILTER_NEW_LISTENER: u32 = 1 << 3;
/// Signals do not interrupt a question that we have begun to answer.
const FILTER_WAIT_KILLABLE: u32 = 1 << 5;

fn socket_pair() -> Result<(OwnedFd, OwnedFd), GuestError> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    check(
        // SAFETY: writes two descriptors.
        unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) }.into(),
        "making a socket pair",
    )?;
    // SAFETY: just created and owned by nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

fn pipe() -> Result<(std::fs::File, OwnedFd), GuestError> {
    let mut fds = [0; 2];
    check(
        // SAFETY: writes two descriptors.
        unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into(),
        "making a pipe",
    )?;
    // SAFETY: just created and owned by nobody else.
    Ok(unsafe {
        (
            std::fs::File::from_raw_fd(fds[0]),
            OwnedFd::from_raw_fd(fds[1]),
        )
    })
}

/// Room for one descriptor in an ancillary message, aligned.
#[repr(C, align(8))]
struct Ancillary([u8; 24]);

fn message(byte: &mut libc::iovec, ancillary: &mut Ancillary) -> libc::msghdr {
    // SAFETY: plain data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = byte;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = ancillary.0.len();
    header
}

/// # Safety
/// In the forked child only; both descriptors are open.
unsafe fn send_descriptor(socket: RawFd, descriptor: RawFd) {
    let mut text = [0u8; 1];
    let mut byte = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut ancillary = Ancillary([0; 24]);
    let header = message(&mut byte, &mut ancillary);
    // SAFETY: the header describes the buffers above.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        (*control).cmsg_level = libc::SOL_SOCKET;
        (*control).cmsg_type = libc::SCM_RIGHTS;
        (*control).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(control)
            .cast::<RawFd>()
            .write_unaligned(descriptor);
        libc::sendmsg(socket, &raw const header, 0);
    }
}

/// `None` when the child died before it got that far.
fn receive_descriptor(socket: RawFd) -> Option<OwnedFd> {
    let mut text = [0u8; 1];
    let mut byte = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut ancillary = Ancillary([0; 24]);
    let mut header = message(&mut byte, &mut ancillary);
    // SAFETY: the header describes the buffers above.
    unsafe {
        if libc::recvmsg(socket, &raw mut header, libc::MSG_CMSG_CLOEXEC) != 1 {
            return None;
        }
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        if control.is_null() || (*control).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        Some(OwnedFd::from_raw_fd(
            libc::CMSG_DATA(control).cast::<RawFd>().read_unaligned(),
        ))
    }
}
