//! Splice: two interfaces of one namespace that the kernel can join like one cable.

use timeloom_sys::interface::{highest_index, index_of};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use crate::link;
use crate::netlink::RouteSocket;
use crate::{FabricError, KernelError, Namespace};
use timeloom_wire::MacAddress;

/// Splice of two interfaces. While it is closed, the kernel forwards every frame between the two.
/// It does so with a bridge of two ports that has no spanning tree and also forwards link-local PTP
/// messages. While the splice is open, the kernel forwards nothing, and only frames that a program
/// sends pass.
pub struct Splice {
    route: RouteSocket,
    bridge: u32,
    ports: [u32; 2],
}

impl Splice {
    /// Creates an open splice of two interfaces of `namespace`.
    ///
    /// # Errors
    /// Fails if there is no such interface, or the kernel has no bridges.
    pub fn new(namespace: &Namespace, interfaces: [&str; 2]) -> Result<Self, FabricError> {
        let splice = namespace.run(|| -> Result<Self, KernelError> {
            let index = |name: &str| {
                index_of(name).map_err(|error| KernelError::new(format!("find {name}"), error))
            };
            let ports = [index(interfaces[0])?, index(interfaces[1])?];
            let bridge = highest_index() + 1;
            let mut route = RouteSocket::open_here()?;
            for request in [
                link::splice(bridge, NAME, MacAddress([0x02, 0x54, 0x4c, 0, 0xee, 0])),
                link::up(bridge),
            ] {
                let flags = NLM_F_CREATE | NLM_F_EXCL;
                let made = route.change(request, flags);
                made.map_err(|refusal| refusal.during("create the bridge of a splice"))?;
            }
            Ok(Self {
                route,
                bridge,
                ports,
            })
        })??;
        Ok(splice)
    }

    /// Lets the kernel forward all frames from now on.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn close(&mut self) -> Result<(), FabricError> {
        for port in self.ports {
            self.change(link::plug(port, self.bridge))?;
        }
        Ok(())
    }

    /// Stops forwarding by the kernel, so that programs can handle all frames.
    ///
    /// # Errors
    /// Fails if the kernel refuses the change.
    pub fn open(&mut self) -> Result<(), FabricError> {
        for port in self.ports {
            self.change(link::plug(port, 0))?;
        }
        Ok(())
    }

    fn change(
        &mut self,
        request: netlink_packet_route::RouteNetlinkMessage,
    ) -> Result<(), KernelError> {
        let changed = self.route.change(request, 0);
        changed.map_err(|refusal| refusal.during("join the two ends of a splice"))
    }
}

impl std::fmt::Debug for Splice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Splice")
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

const NAME: &str = "splice";
