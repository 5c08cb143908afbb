//! Names of links as clients write them, and reasons why a link does not change.

use timeloom_time::Duration;

/// Reason why a link does not change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkChangeError {
    #[error("there is no link `{link}`{hint}")]
    Unknown { link: String, hint: String },
    #[error("nothing is to change: give a rate, delay, jitter, loss or state")]
    Nothing,
    #[error("{0}")]
    Value(&'static str),
    #[error(
        "a link of kernel parts can change only its rate and state; with the table [network] in \
         its scenario, the network is simulated"
    )]
    BeyondTheKernel,
    #[error("the link `{0}` leads to another agent, and cannot change")]
    Tunnel(String),
    #[error(
        "the simulated network of this run has engines on several agents, which links must change \
         together: add the change as an [[event]] to its scenario"
    )]
    Spread,
    #[error(
        "the delay of the link `{link}` cannot be less than {least}: another engine simulates its \
         other end, and computes that far ahead"
    )]
    Lookahead { link: String, least: Duration },
    #[error("the link `{link}` cannot change: {reason}")]
    Fixed { link: String, reason: String },
}

/// Returns true if `text` names the link between these nodes.
pub(crate) fn has_name([a, b]: &[String; 2], text: &str) -> bool {
    let is = |first: &str, second: &str| {
        let rest = text
            .strip_prefix(first)
            .and_then(|rest| rest.strip_prefix('-'));
        rest == Some(second)
    };
    is(a, b) || is(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_called_after_its_ends_in_either_order() {
        let ends = ["plc-1".to_owned(), "sw".to_owned()];
        assert!(has_name(&ends, "plc-1-sw") && has_name(&ends, "sw-plc-1"));
        assert!(!has_name(&ends, "plc-1") && !has_name(&ends, "plc-1-sw-2"));
    }
}
