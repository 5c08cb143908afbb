//! A laboratory whose programs somebody else starts and watches.

use super::chain::Chain;
use super::{LabOptions, kernel, nodes};
use crate::{Observer, Options, Program, PtpError, Wake};

/// A chain that is built, with its keys, whose programs somebody else starts and watches: a
/// benchmark. Dropping it takes it down.
#[derive(Debug)]
pub struct Stage {
    options: LabOptions,
    chain: Chain,
}

impl Stage {
    /// Builds the chain, with neither attacker nor capture.
    ///
    /// # Errors
    /// Arguments that do not fit, a machine that cannot.
    pub fn build(options: LabOptions) -> Result<Self, PtpError> {
        options.check()?;
        let second = options.auth.is_some_and(|auth| auth.secondary);
        let chain = Chain::build(options.nodes.len(), None, second).map_err(kernel)?;
        nodes::make_keys(&options, &chain)?;
        Ok(Self { options, chain })
    }

    /// How the program at place `node` would run in this laboratory, with its keys read.
    ///
    /// # Errors
    /// Keys that do not hold.
    pub fn program(&self, node: usize) -> Result<Options, PtpError> {
        nodes::program(&self.options, node, &self.chain)
    }

    /// Opens a program at place `node`; its clock counts from now.
    ///
    /// # Errors
    /// See [`Program::open`].
    pub fn open(
        &self,
        node: usize,
        program: Options,
        wake: Wake,
        observer: Box<dyn Observer>,
    ) -> Result<Program, PtpError> {
        nodes::open(&self.chain.sites[node], program, wake, observer)
    }
}
