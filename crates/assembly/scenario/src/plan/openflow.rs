//! `[system.openflow]`: which switches are real Open vSwitch bridges, and the
//! controller that tells them what to do.

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Program;
use crate::read::{Fields, Read};

/// The switches that speak OpenFlow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OpenFlow {
    /// Names out of `switches`. The first has datapath identifier 1; a
    /// switch's ports are numbered from 1 in the order of `links`.
    pub switches: Vec<String>,
    /// The controller; it must listen at 127.0.0.1:6653. Without one each switch
    /// learns addresses by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Program>,
}

impl OpenFlow {
    /// Where the controller runs, as results and messages name it: beside the
    /// switches, in the network of none of the hosts.
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
