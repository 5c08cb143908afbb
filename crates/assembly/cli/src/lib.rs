//! Timeloom as a library: the crates that programs use, under one name. The
//! program `timeloom` is made of the same ones.
//!
//! - [`time`]: instants, durations, rates and clock maps, the vocabulary.
//! - [`timeline`]: a program's side of a timeline: bind, read, compare, wait.
//! - [`clock`]: the models behind it: counters, oscillators, intervals.
//! - [`publish`]: timeline pages in shared memory, and other people's formats.
//! - [`scenario`] and [`run`]: from a scenario file to a finished run.
//!
//! ```no_run
//! use timeloom::timeline::Timeline;
//!
//! let timeline = Timeline::open("plant")?;
//! println!("{:?}", timeline.read());
//! # Ok::<(), timeloom::timeline::OpenError>(())
//! ```
#![forbid(unsafe_code)]

pub use timeloom_clock as clock;
pub use timeloom_publish as publish;
pub use timeloom_run as run;
pub use timeloom_scenario as scenario;
pub use timeloom_time as time;
pub use timeloom_timeline_client as timeline;
