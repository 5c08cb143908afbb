//! The line between machines: over unreliable or hostile UDP; wired, its level derived from edges
//! and readings; several ends of one line, with and without a network, over simulated wires. Real
//! pins: `make test-gpio`.

mod agreed;
mod clock;
mod ends;
mod hostile;
mod level;
mod pins;
mod wire;
