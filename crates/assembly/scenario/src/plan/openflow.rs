//! Table `[system.openflow]`: switches that are real Open vSwitch bridges, and their controller.

use crate::plan::Program;
use crate::table::table;

table! {
/// Switches that speak OpenFlow.
#[noun = "[system.openflow]"]
pub struct OpenFlow {
    /// Names of the switches, which must be in `system.switches`. The first has datapath identifier
    /// 1. A switch's ports are numbered from 1, in the order of `links`.
    pub switches: Vec<String>,
    /// Controller, which must listen at 127.0.0.1:6653. If left out, each switch learns addresses
    /// by itself.
    pub controller: Option<Program>,
}
}

impl OpenFlow {
    /// Name that stands for the controller's host in results and messages. The controller runs in
    /// the network namespace of the switches, not on a host.
    pub const HOST: &str = "openflow";
}
