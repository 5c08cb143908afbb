//! Reserve descriptors: with them, a session that has used up its descriptors can still answer
//! queries, and stop.

use parking_lot::Mutex;
use std::fs::File;
use std::io;

static SPARE: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Reserves descriptors, as many as are available up to [`KEPT`].
pub(crate) fn put_aside() {
    fill(&mut SPARE.lock());
}

/// Runs `attempt`, which needs a descriptor. If none is left, frees a reserved one and runs it
/// again.
pub(crate) fn with_spare<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match attempt() {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            let mut spare = SPARE.lock();
            spare.clear();
            let done = attempt();
            fill(&mut spare);
            done
        }
        done => done,
    }
}

fn fill(spare: &mut Vec<File>) {
    while spare.len() < KEPT {
        match File::open("/dev/null") {
            Ok(file) => spare.push(file),
            Err(_) => return,
        }
    }
}

/// Number of reserved descriptors, which suffices for some concurrent requests.
const KEPT: usize = 8;
