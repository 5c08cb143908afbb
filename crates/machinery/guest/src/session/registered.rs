//! Attachment of running programs to a session, and their release.

use std::sync::Arc;

use super::Session;
use crate::error::GuestError;
use crate::register::{Registration, register, release};
use crate::supervise::listener;
use crate::supervise::notify::Listener;

impl Session {
    /// Attaches a running process to the session, with all its threads. Its clocks show the
    /// session's time from then on, until [`Self::unregister`].
    ///
    /// # Errors
    /// Fails if there is no such process, if it is in a session already, or if it may not be
    /// attached to.
    pub fn register(&self, pid: i32) -> Result<(), GuestError> {
        if self.clock.emulates_tsc() {
            return Err(GuestError::Usage(
                "a session that emulates the time-stamp counter cannot bring in a running program, whose handler of SIGSEGV is its own; start the program in the session, or use `--tsc native`".into(),
            ));
        }
        let _change = self.lock();
        let mut registered = self.registered.lock();
        registered.retain(|registration| !registration.is_over());
        let tag = self.page_name.image_name(pid);
        let home = timeloom_sys::cgroup::of(pid as u32);
        let supervisor = &self.supervisor;
        let name = std::ffi::CString::new(tag.as_str()).expect("no zero byte");
        let image = supervisor.injector.image.copy(&name)?;
        let its_image = image
            .try_clone()
            .map_err(GuestError::system("duplicating a descriptor"))?;
        let host = self.own_host();
        let its_host = Arc::clone(&host);
        let mut listening = None;
        let serve = |descriptor| {
            let listener = Arc::new(Listener::registered(descriptor, its_host, its_image)?);
            listening = Some(Arc::clone(&listener));
            let supervisor = Arc::clone(supervisor);
            std::thread::Builder::new()
                .spawn(move || listener::serve(&listener, &supervisor))
                .map_err(GuestError::system("starting a thread for the program"))?;
            Ok(())
        };
        let done = register(
            &supervisor.injector,
            (host.page(), &image),
            pid,
            serve,
            |pid| supervisor.freezer.adopt(pid, host.index()),
        );
        // The listener is served even if the process could not be added to the freezer: the process
        // already runs by the session's clock.
        if let Some(listener) = listening {
            registered.push(Registration {
                pid,
                tag,
                listener,
                home,
            });
        }
        if let Some(remark) = supervisor.injector.take_remark() {
            (supervisor.warn)(remark);
        }
        done
    }

    /// Releases a program attached by [`Self::register`], with all processes that it has started
    /// since. Its clocks are the machine's again, its waits and timers continue in real time, and
    /// it outlives the session.
    ///
    /// # Errors
    /// Fails if the program was not attached, if it cannot be stopped, or if some of its state
    /// could not be restored.
    pub fn unregister(&self, pid: i32) -> Result<(), GuestError> {
        let _change = self.lock();
        let mut registered = self.registered.lock();
        let index = registered.iter().position(|one| one.pid == pid);
        let Some(index) = index else {
            return Err(GuestError::Usage(format!(
                "process {pid} was not brought into this session by `timeloom register`"
            )));
        };
        let result = release(&self.supervisor, &registered[index]);
        if registered[index].is_released() {
            registered.swap_remove(index);
        }
        result
    }
}
