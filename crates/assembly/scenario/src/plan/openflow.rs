//! `[system.openflow]`: the switches that are real Open vSwitch bridges, and their controller.

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Program;
use crate::read::{Fields, Read};

/// The switches that speak OpenFlow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OpenFlow {
    /// Names of the switches, a subset of `switches`. The first has datapath identifier 1; a
    /// switch's ports are numbered from 1 in the order of `links`.
    pub switches: Vec<String>,
    /// The controller; it must listen at 127.0.0.1:6653. Without a controller, each switch learns
    /// addresses by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Program>,
}

impl OpenFlow {
    /// Host name of the controller in results and messages. The controller runs in the network
    /// namespace of the switches, not in that of a host.
    pub const HOST: &str = "openflow";
}

impl Read for OpenFlow {
    const NOUN: &'static str = "[system.openflow]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            switches: fields.required("switches"),
            controller: fields.optional("controller"),
        }
    }
}
