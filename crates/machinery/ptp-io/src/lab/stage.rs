//! A laboratory whose programs are started and observed by its user.

use super::chain::Chain;
use super::{LabOptions, kernel, nodes};
use crate::{Observer, Options, Program, PtpError, Wake};

/// A chain with its keys, whose programs the user starts and observes, such as a benchmark.
/// Dropping it takes the chain down.
#[derive(Debug)]
pub struct Stage {
    options: LabOptions,
    chain: Chain,
}

impl Stage {
    /// Builds the chain, with neither attacker nor capture.
    ///
    /// # Errors
    /// Fails on invalid arguments, or if the machine lacks a capability.
    pub fn build(options: LabOptions) -> Result<Self, PtpError> {
        options.check()?;
        let second = options.auth.is_some_and(|auth| auth.secondary);
        let chain = Chain::build(options.nodes.len(), None, second).map_err(kernel)?;
        nodes::make_keys(&options, &chain)?;
        Ok(Self { options, chain })
    }

    /// Returns the options of the program at place `node` in this laboratory, with its keys loaded.
    ///
    /// # Errors
    /// Fails if keys are invalid.
    pub fn program(&self, node: usize) -> Result<Options, PtpError> {
        nodes::program(&self.options, node, &self.chain)
    }

    /// Opens a program at place `node`; its clock starts now.
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
