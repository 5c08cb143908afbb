//! Handling of Ctrl-C and SIGTERM. The first signal requests an orderly end of a command; a second
//! one ends the command at once.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::low_level::pipe;
use timeloom_run::exit::Failure;

/// Returns a flag that the first signal sets. A second signal ends the process with exit code 1;
/// the reaper of each session then removes what the session left behind.
///
/// Signals within one second count as one request, because a terminal, `timeout` and a parent
/// process may each send a signal to the whole process group.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let again = Arc::new(AtomicBool::new(false));
    let failed = |error| Failure::run(format!("handling signals: {error}"));
    let (mut first, wake) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM] {
        register_conditional_shutdown(signal, 1, Arc::clone(&again)).map_err(failed)?;
        register(signal, Arc::clone(&interrupted)).map_err(failed)?;
        pipe::register(signal, wake.try_clone().map_err(failed)?).map_err(failed)?;
    }
    std::thread::spawn(move || {
        if first.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(ONE_REQUEST);
            again.store(true, Ordering::SeqCst);
        }
    });
    Ok(interrupted)
}

const ONE_REQUEST: Duration = Duration::from_secs(1);
