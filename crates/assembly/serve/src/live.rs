//! The state of a run, and the differences that pages get.
//!
//! - `watchers`: a thread for each run that a page shows, which reads it four times a second;
//! - `store`: the state of a run, all of it bounded;
//! - `series`: the samples of one signal, decimated;
//! - `view`: the state as pages get it;
//! - `update`: the difference between the state and what a page has;
//! - `session`: the sessions of runs that go on.

mod series;
mod session;
mod store;
mod update;
mod view;
mod watchers;

pub(crate) use update::{Cursor, Update};
pub(crate) use view::{Listed, seconds};
pub(crate) use watchers::{Watched, Watchers};
