//! Tests of the line between machines: over unreliable or hostile UDP paths, over a wire whose
//! level is derived from edges and readings, and with several ends of one line, with and without a
//! network, over simulated wires. For real pins see `make test-gpio`.

mod agreed;
mod clock;
mod ends;
mod hostile;
mod level;
mod pins;
mod wire;
