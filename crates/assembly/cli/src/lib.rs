//! Timeloom as a library: the crates that other programs may use, under one name. The program
//! `timeloom` is built from the same crates.
//!
//! - [`time`]: instants, durations, rates and clock maps, the vocabulary.
//! - [`timeline`]: client of a timeline, which can bind, read, compare and wait; its pages in shared
//!   memory, and the formats of other projects.
//! - [`clock`]: models on which timelines are built: counters, oscillators, intervals.
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
pub use timeloom_run as run;
pub use timeloom_scenario as scenario;
pub use timeloom_time as time;
pub use timeloom_timeline as timeline;
