//! A wired line: its level out of edges and readings; several ends of one line, with and
//! without a network, over wires that are made up here. Real pins: `make test-gpio`.

mod ends;
mod level;
mod pins;
mod wire;
