//! Check, by experiment, that a fabric can be built on this machine.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::io::Errno;
use std::os::fd::AsRawFd;

use crate::capture::{CaptureOptions, PacketCapture};
use crate::congestion::VirtualCubic;
use crate::link::{self, CableEnd};
use crate::station::{STATION_INDEX, STATION_INTERFACE, Site};
use crate::tbf::{self, QueueOf};
use crate::{KernelError, openflow};
use timeloom_wire::MacAddress;

/// A feature that the fabric needs, and its availability on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Short name of the feature.
    pub name: &'static str,
    /// True if the test succeeded.
    pub available: bool,
    /// Description of the test. If the test failed, its cause and the missing feature.
    pub detail: String,
}

/// Tests every kernel feature that the fabric uses, in temporary namespaces. Features that depend
/// on one that failed are reported as not tested.
pub fn probe() -> Vec<Feature> {
    let mut report = Report {
        features: Vec::new(),
    };
    let near = report.record(
        "network namespaces",
        "created and entered",
        Site::create("probe"),
    );
    let far = Site::create("probe peer").ok();
    let (Some(mut near), Some(far)) = (near, far) else {
        for name in [
            "Open vSwitch",
            CUBIC,
            "bridge",
            "veth",
            "tbf",
            "offload control",
            "capture",
        ] {
            report.skip(name, "network namespaces");
        }
        return report.features;
    };
    match openflow::examine(&near.namespace) {
        Ok(found) => report.push("Open vSwitch", true, found),
        Err(error) => report.push("Open vSwitch", false, error.to_string()),
    }
    report.record(
        CUBIC,
        "registered as a BPF program",
        VirtualCubic::register(),
    );

    let mut try_change = |request: RouteNetlinkMessage, flags, action: &str, option: &str| {
        near.route.change(request, flags).map_err(|refusal| {
            refusal
                .during(action)
                .missing_if(&[Errno::OPNOTSUPP, Errno::NOENT], option)
        })
    };
    let create = NLM_F_CREATE | NLM_F_EXCL;
    let bridge = try_change(
        link::bridge(BRIDGE_INDEX, "probe", MAC_A),
        create,
        "create a bridge",
        "bridges in the kernel (CONFIG_BRIDGE)",
    );
    let veth = try_change(
        link::cable(
            &CableEnd {
                index: STATION_INDEX,
                name: STATION_INTERFACE,
                mac: MAC_A,
            },
            &CableEnd {
                index: STATION_INDEX,
                name: STATION_INTERFACE,
                mac: MAC_B,
            },
            Some(far.namespace.as_raw_fd()),
        ),
        create,
        "create a veth pair across two namespaces",
        "veth pairs in the kernel (CONFIG_VETH)",
    );
    let bridge = bridge.and_then(|()| match veth {
        Ok(()) => try_change(
            link::plug(STATION_INDEX, BRIDGE_INDEX),
            0,
            "plug a veth into a bridge",
            "bridge ports for veth",
        ),
        Err(_) => Ok(()),
    });
    report.record("bridge", "created", bridge);
    if report
        .record("veth", "created across two namespaces", veth)
        .is_none()
    {
        for name in ["tbf", "offload control", "capture"] {
            report.skip(name, "veth");
        }
        return report.features;
    }

    let tbf = try_change(
        tbf::shape(STATION_INDEX, 10_000_000, QueueOf::Port),
        NLM_F_CREATE | NLM_F_REPLACE,
        "give a veth the rate 10 Mbit/s",
        "the tbf queue in the kernel (CONFIG_NET_SCH_TBF)",
    );
    report.record("tbf", "set to 10 Mbit/s", tbf);
    report.record(
        "offload control",
        "checksum and segmentation offload switched off",
        near.offloads_off(),
    );
    let capture = PacketCapture::start_with(
        &near.namespace,
        STATION_INTERFACE,
        CaptureOptions::default(),
        |_| (),
    );
    let precision = |capture: PacketCapture| {
        format!(
            "opened; clock offset known to {}",
            capture.stop().clock_error
        )
    };
    match capture {
        Ok(capture) => report.push("capture", true, precision(capture)),
        Err(error) => report.push("capture", false, error.to_string()),
    }
    report.features
}

struct Report {
    features: Vec<Feature>,
}

impl Report {
    fn record<T>(
        &mut self,
        name: &'static str,
        done: &str,
        outcome: Result<T, KernelError>,
    ) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.push(name, true, done.to_owned());
                Some(value)
            }
            Err(error) => {
                self.push(name, false, error.to_string());
                None
            }
        }
    }

    fn skip(&mut self, name: &'static str, because: &str) {
        self.push(name, false, format!("not tried: it needs {because}"));
    }

    fn push(&mut self, name: &'static str, available: bool, detail: String) {
        self.features.push(Feature {
            name,
            available,
            detail,
        });
    }
}

/// Name of the feature [`VirtualCubic`].
const CUBIC: &str = "CUBIC in virtual time";
const BRIDGE_INDEX: u32 = STATION_INDEX + 1;
const MAC_A: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const MAC_B: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
