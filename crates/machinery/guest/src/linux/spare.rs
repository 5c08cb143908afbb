//! Reserve descriptors: a session whose descriptors are used up can still answer queries, and stop.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

static SPARE: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Reserves descriptors, as far as there are any.
pub(crate) fn put_aside() {
    fill(&mut SPARE.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Runs `attempt`, which needs a descriptor; frees a reserved one if there is no other.
pub(crate) fn with_spare<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match attempt() {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Sufficient for some requests at a time.
const KEPT: usize = 8;
