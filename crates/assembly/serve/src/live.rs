//! The state of a run, and the updates that are sent to pages.
//!
//! - `watchers`: a thread for each run that a page shows, which reads the run four times a second;
//! - `store`: the state of a run, in bounded memory;
//! - `series`: the samples of one signal, decimated;
//! - `view`: the state in the form that is sent to pages;
//! - `update`: the difference between the present state and the state that a page has;
//! - `session`: the sessions of running runs.

mod series;
mod session;
mod store;
mod update;
mod view;
mod watchers;

pub(crate) use update::{Cursor, Update};
pub(crate) use view::{Listed, seconds};
pub(crate) use watchers::{Watched, Watchers};
