//! Detection of pending input among many objects, at a cost that does not depend on their number.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use timeloom_time::Duration;

use crate::epoll::Epoll;

/// Result of a look at an object whose descriptor is readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Input is pending.
    Yes,
    /// No input is pending now.
    No,
    /// No input will be pending any more.
    Never,
}

/// Objects with a descriptor each. An object is kept until its last other reference is dropped, or
/// until its input is [`Pending::Never`].
#[derive(Debug)]
pub struct Readable<T> {
    ready: Epoll,
    watched: BTreeMap<u64, Weak<T>>,
    next: u64,
}

impl<T: AsFd> Readable<T> {
    /// Creates an empty collection.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            ready: Epoll::new(AT_ONCE)?,
            watched: BTreeMap::new(),
            next: 0,
        })
    }

    /// Adds an object.
    ///
    /// # Errors
    /// Fails if the kernel has no memory, or the limit of watched descriptors is reached
    /// (`/proc/sys/fs/epoll/max_user_watches`).
    pub fn add(&mut self, one: &Arc<T>) -> io::Result<()> {
        self.watched.retain(|_, one| one.strong_count() > 0);
        self.ready.add(&**one, self.next)?;
        self.watched.insert(self.next, Arc::downgrade(one));
        self.next += 1;
        Ok(())
    }

    /// Returns true if input is pending at an object, as `look` states. `look` is called for
    /// objects whose descriptor is readable.
    pub fn is_pending(&mut self, look: impl Fn(&T) -> Pending) -> bool {
        loop {
            // No cause of failure is known; input that cannot be excluded counts as pending.
            let Ok(ready) = self.ready.wait(Some(Duration::ZERO)) else {
                return true;
            };
            let ready: Vec<u64> = ready.collect();
            let mut removed = false;
            for number in &ready {
                let Some(one) = self.watched.get(number).and_then(Weak::upgrade) else {
                    continue;
                };
                match look(&one) {
                    Pending::Yes => return true,
                    Pending::No => {}
                    Pending::Never => {
                        removed |= self.ready.remove(&*one).is_ok();
                        self.watched.remove(number);
                    }
                }
            }
            if ready.len() < AT_ONCE {
                return false;
            }
            if !removed {
                // More are readable than one query returns.
                return self.alive().iter().any(|one| look(one) == Pending::Yes);
            }
        }
    }

    /// Returns all objects that still exist.
    pub fn alive(&self) -> Vec<Arc<T>> {
        self.watched.values().filter_map(Weak::upgrade).collect()
    }
}

/// Number of objects that one query of the kernel returns.
const AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Write};

    use super::*;

    #[test]
    fn pending_input_is_found_among_other_readable_descriptors() {
        let mut all = Readable::new().expect("epoll");
        let pipes: Vec<_> = (0..2 * AT_ONCE + 3)
            .map(|_| {
                let (reader, writer) = io::pipe().expect("a pipe");
                (Arc::new(reader), writer)
            })
            .collect();
        for (reader, _) in &pipes {
            all.add(reader).expect("added");
        }
        assert!(!all.is_pending(|_| Pending::Yes), "none is readable");
        let last = &pipes[pipes.len() - 1];
        (&last.1).write_all(b"x").expect("written");
        assert!(all.is_pending(|_| Pending::Yes));
        assert!(!all.is_pending(|_| Pending::No));
        for (_, writer) in &pipes {
            (&*writer).write_all(b"x").expect("written");
        }
        let is_last = |one: &PipeReader| std::ptr::eq(one, &*last.0);
        let look = |one: &PipeReader| match is_last(one) {
            true => Pending::Yes,
            false => Pending::No,
        };
        assert!(all.is_pending(look), "it is beyond those returned first");
        assert!(!all.is_pending(|_| Pending::Never));
        assert!(all.alive().is_empty());
        assert!(!all.is_pending(|_| Pending::Yes), "none is left");
    }

    #[test]
    fn an_object_leaves_with_its_last_reference() {
        let mut all = Readable::new().expect("epoll");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let reader = Arc::new(reader);
        all.add(&reader).expect("added");
        writer.write_all(b"x").expect("written");
        drop(reader);
        assert!(!all.is_pending(|_| Pending::Yes));
        assert!(all.alive().is_empty());
    }
}
