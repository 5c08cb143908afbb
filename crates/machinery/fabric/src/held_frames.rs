//! Count of the frames that queues of the kernel have held back, from the kernel's statistics.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcStats2};

use crate::netlink::RouteSocket;
use crate::{KernelError, Namespace};

/// Returns how often queues in a namespace held frames back: how often one that limits a rate (`tbf`
/// of a link with a rate, `htb`) was over its limit, and how many frames one that delays (`netem`)
/// has passed. Queues that were removed are not counted.
///
/// # Errors
/// Fails if the namespace cannot be entered or the kernel refuses the list.
pub fn frames_held_back(namespace: &Namespace) -> Result<u64, KernelError> {
    let listed = namespace.run(|| {
        let mut socket = RouteSocket::open_here()?;
        let all = socket.list(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()));
        all.map_err(|refusal| refusal.during(format!("list the queues of `{}`", namespace.name())))
    })??;
    Ok(listed.iter().map(held_back).sum())
}

fn held_back(queue: &RouteNetlinkMessage) -> u64 {
    let RouteNetlinkMessage::NewQueueDiscipline(queue) = queue else {
        return 0;
    };
    let delays = queue.attributes.iter().any(|attribute| {
        matches!(attribute, TcAttribute::Kind(kind) if DELAYING.contains(&kind.as_str()))
    });
    let statistics = queue
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            TcAttribute::Stats2(all) => Some(all.iter()),
            _ => None,
        });
    let counts = statistics.flatten().map(|one| match one {
        TcStats2::Queue(queue) => u64::from(queue.overlimits),
        TcStats2::Basic(basic) if delays => u64::from(basic.packets),
        _ => 0,
    });
    counts.sum()
}

/// Kinds of queues that delay frames without counting that as over a limit.
const DELAYING: [&str; 3] = ["netem", "etf", "taprio"];
