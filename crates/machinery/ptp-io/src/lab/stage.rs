//! Laboratory whose programs the caller starts and observes.

use super::chain::Chain;
use super::{LabOptions, kernel, nodes};
use crate::{Observer, Program, ProgramOptions, PtpError, Wake};

/// Chain with its keys. The caller, such as a benchmark, starts and observes the programs. Dropping
/// the value removes the chain.
#[derive(Debug)]
pub struct Stage {
    options: LabOptions,
    chain: Chain,
}

impl Stage {
    /// Builds the chain, without an attacker and without a capture.
    ///
    /// # Errors
    /// Fails if arguments are invalid, or if the machine lacks a capability.
    pub fn build(options: LabOptions) -> Result<Self, PtpError> {
        options.check()?;
        let second = options.auth.is_some_and(|auth| auth.secondary);
        let chain = Chain::build(options.nodes.len(), None, second).map_err(kernel)?;
        nodes::make_keys(&options, &chain)?;
        Ok(Self { options, chain })
    }

    /// Returns the options of the program at the node with index `node`, with its keys loaded.
    ///
    /// # Errors
    /// Fails if the keys are invalid.
    pub fn program(&self, node: usize) -> Result<ProgramOptions, PtpError> {
        nodes::program(&self.options, node, &self.chain)
    }

    /// Opens a program at the node with index `node`. The program's clock starts at this instant.
    ///
    /// # Errors
    /// Fails as [`Program::open`] does.
    pub fn open(
        &self,
        node: usize,
        program: ProgramOptions,
        wake: Wake,
        observer: Box<dyn Observer>,
    ) -> Result<Program, PtpError> {
        nodes::open(&self.chain.sites[node], program, wake, observer)
    }
}
