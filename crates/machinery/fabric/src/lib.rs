//! The experiment's network, built from kernel components on one machine.
//!
//! A station (a host or a field device) is a network namespace with one interface `eth0`; a switch
//! is a bridge; a link is a veth pair, with a token bucket on both ends if it has a rate. All
//! bridges are in one more namespace, the *fabric namespace*, which runs no programs.
//!
//! ```text
//!   station plc              fabric namespace               station scada
//!  +-----------+    +------------------------------+    +-----------+
//!  | eth0 -----+----+- s1-plc [s1] s1-s2 = s2-s1   |    |           |
//!  |           |    |          [s2] s2-scada ------+----+---- eth0  |
//!  +-----------+    +------------------------------+    +-----------+
//! ```
//!
//! **Nothing outlives its users.** Namespaces are anonymous: they have no entry in `/run/netns` and
//! no mount. Only this process and the programs inside have file descriptors of them. When all of
//! these have ended, by whatever signal, the kernel removes the namespaces with every bridge and
//! link in them.
//!
//! **A link carries the frames that a wire would carry.** Stations have checksum and segmentation
//! offloads disabled, so no frame exceeds the MTU and every checksum in a capture is correct.
//! Spanning tree is off, multicast is flooded, and IPv6 is off at stations without an IPv6 address
//! (`ipv6.rs` describes the settings of the others). The network therefore sends no frame that no
//! program sent.
//!
//! Limits: this crate adds no delay (some supported kernels have no netem), routes nothing, and
//! does not know virtual time; a rate is in bits per second of the machine's clock. Mounts are not
//! changed. A program in a station that reads `/sys/class/net` therefore sees the *machine's*
//! interfaces, while netlink, ioctls and `/proc/self/net` show those of the station.
//!
//! Other differences from a wire: a frame that arrives at an idle rated link passes without its own
//! serialisation delay (see `tbf.rs`); bridges do not forward the reserved group addresses
//! 01:80:c2:00:00:0x (LLDP, PTP peer delay), as IEEE 802.1Q requires; stations have no default
//! route, so a program that sends multicast must select the interface.
//!
//! The runner builds a [`Fabric`], starts programs through [`Namespace::confine`] and records links
//! with [`PacketCapture`]. `timeloom doctor` calls [`probe()`].
#![forbid(unsafe_code)]

mod btf;
mod cable;
mod capture;
mod changing;
mod congestion;
mod error;
mod ethtool;
mod fabric;
mod held_frames;
mod ipv6;
mod link;
mod loss_detection;
mod machine_port;
mod metrics;
mod names;
mod namespace;
mod netlink;
mod openflow;
mod probe;
mod self_clocking;
mod settings;
mod spec;
mod splice;
mod station;
mod tbf;
mod tcp_state;
mod timers;

pub use cable::{Plug, connect};
pub use capture::{CaptureOptions, CaptureStatistics, CapturedFrame, Direction, PacketCapture};
pub use changing::ChangingLink;
pub use congestion::VirtualCubic;
pub use error::{FabricError, KernelError, SpecError};
pub use fabric::{Fabric, StationPort};
pub use held_frames::frames_held_back;
pub use ipv6::give_ipv6;
pub use loss_detection::{LossDetection, LossState};
pub use machine_port::MACHINE_INTERFACE;
pub use namespace::Namespace;
pub use openflow::{CONTROLLER, Datapath, OpenFlowSpec};
pub use probe::{Feature, probe};
pub use self_clocking::{TcpSettings, congestion_control, make_self_clocking, make_timerless};
pub use spec::{LinkSpec, NetworkSpec, StationSpec};
pub use splice::Splice;
pub use tbf::{burst_bytes, queue_bytes};
pub use tcp_state::{TcpState, namespace_traffic};
pub use timeloom_wire::MacAddress;
pub use timers::{StationDilation, StationTimers};
