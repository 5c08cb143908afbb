//! The line between machines: over UDP that is bad or hostile; wired, its level out of edges and
//! readings; several ends of one line, with and without a network, over wires that are made up
//! here. Real pins: `make test-gpio`.

mod agreed;
mod clock;
mod ends;
mod hostile;
mod level;
mod pins;
mod wire;
