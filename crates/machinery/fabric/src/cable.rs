//! Cables between individual namespaces. They form chains, which [`crate::Fabric`] does not build,
//! because its stations have one interface each.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use timeloom_sys::interface::highest_index;

use crate::link::{self, CableEnd};
use crate::netlink::RouteSocket;
use crate::station::Site;
use crate::{FabricError, KernelError, Namespace};
use timeloom_wire::MacAddress;

/// One end of a cable to be created.
#[derive(Debug, Clone, Copy)]
pub struct Plug<'a> {
    /// Namespace of the interface.
    pub namespace: &'a Namespace,
    /// Name of the interface in the namespace.
    pub interface: &'a str,
    /// MAC address of the interface.
    pub mac: MacAddress,
    /// IPv4 address of the interface in a subnet of 24 bits; `None` if it has none.
    pub address: Option<Ipv4Addr>,
}

impl Namespace {
    /// Creates a namespace that sends no frames by itself, with its loopback interface up.
    ///
    /// # Errors
    /// Fails as [`Namespace::create`] does.
    pub fn quiet(name: &str) -> Result<Self, KernelError> {
        Ok(Site::create(name)?.namespace)
    }
}

/// Joins two namespaces by a veth pair. When the function returns, the pair carries frames.
///
/// # Errors
/// Fails if the kernel refuses a step, or if an interface of that name exists already.
pub fn connect(a: &Plug<'_>, b: &Plug<'_>) -> Result<(), FabricError> {
    let title = format!(
        "{} in `{}` - {} in `{}`",
        a.interface,
        a.namespace.name(),
        b.interface,
        b.namespace.name()
    );
    // Both ends may be in the same namespace, so their numbers must differ.
    let (a_index, b_index) = (free_index(a)?, free_index(b)? + 1);
    a.namespace.run(|| -> Result<(), KernelError> {
        let request = link::cable(
            &end(a, a_index),
            &end(b, b_index),
            Some(b.namespace.as_raw_fd()),
        );
        RouteSocket::open_here()?
            .change(request, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| refusal.during(format!("create the cable {title}")))
    })??;
    for (plug, index) in [(b, b_index), (a, a_index)] {
        plug.namespace.run(|| settle(plug, index))??;
    }
    Ok(())
}

fn end<'a>(plug: &Plug<'a>, index: u32) -> CableEnd<'a> {
    CableEnd {
        index,
        name: plug.interface,
        mac: plug.mac,
    }
}

/// Returns an interface number above those of the namespace. The kernel usually assigns the number,
/// but `link::cable` requires one.
fn free_index(plug: &Plug<'_>) -> Result<u32, FabricError> {
    let highest = plug.namespace.run(highest_index)?.max(FIRST_INDEX);
    Ok(highest + 1)
}

const FIRST_INDEX: u32 = 1000;

fn settle(plug: &Plug<'_>, index: u32) -> Result<(), KernelError> {
    let mut route = RouteSocket::open_here()?;
    let place = || format!("{} in `{}`", plug.interface, plug.namespace.name());
    route
        .change(link::up(index), 0)
        .map_err(|refusal| refusal.during(format!("bring up {}", place())))?;
    if let Some(address) = plug.address {
        let request = link::address(index, address.into(), 24);
        route
            .change(request, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| refusal.during(format!("give {} the address {address}", place())))?;
    }
    // The first end has no carrier until the second one is up, so the wait can succeed only now.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = route
            .get(link::query(index))
            .map_err(|refusal| refusal.during(format!("query {}", place())))?;
        if link::carries_frames(&answer) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(KernelError::new(
                format!("wait until {} is up", place()),
                std::io::ErrorKind::TimedOut.into(),
            ));
        }
        sleep(Duration::from_micros(500));
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
