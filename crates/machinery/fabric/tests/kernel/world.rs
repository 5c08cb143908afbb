//! Networks and helpers shared by several tests.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};
use timeloom_fabric::{Fabric, FabricError, LinkSpec, Namespace, NetworkSpec, StationSpec};

pub(crate) const H1: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const H2: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

pub(crate) fn station(name: &str, address: Ipv4Addr) -> StationSpec {
    StationSpec {
        name: name.to_owned(),
        addresses: vec![(address.into(), 16)],
        mac: None,
    }
}

pub(crate) fn link(a: &str, b: &str, rate_bits_per_s: Option<u64>) -> LinkSpec {
    LinkSpec {
        a: a.to_owned(),
        b: b.to_owned(),
        rate_bits_per_s,
    }
}

/// Returns the network h1 - s1 - … - sN - h2, in which every link has the same rate.
pub(crate) fn line(switches: usize, rate: Option<u64>) -> NetworkSpec {
    let switches: Vec<String> = (1..=switches).map(|i| format!("s{i}")).collect();
    let mut nodes = vec!["h1".to_owned()];
    nodes.extend(switches.iter().cloned());
    nodes.push("h2".to_owned());
    NetworkSpec {
        switches,
        stations: vec![station("h1", H1), station("h2", H2)],
        links: nodes
            .windows(2)
            .map(|pair| link(&pair[0], &pair[1], rate))
            .collect(),
        ..NetworkSpec::default()
    }
}

/// Builds the network. If that fails for lack of root, the panic's message says so.
pub(crate) fn build(spec: &NetworkSpec) -> Fabric {
    match Fabric::build(spec) {
        Ok(fabric) => fabric,
        Err(FabricError::Kernel(error)) => panic!("run these tests as root: {error}"),
        Err(FabricError::Spec(error)) => panic!("{error}"),
    }
}

pub(crate) fn host<'a>(fabric: &'a Fabric, name: &str) -> &'a Namespace {
    fabric.station(name).expect("a station of the test")
}

/// Returns the output of a command that is run inside a namespace.
pub(crate) fn inside(namespace: &Namespace, command: &str) -> String {
    let mut words = command.split_whitespace();
    let mut program = Command::new(words.next().expect("a program"));
    program.args(words);
    namespace
        .confine(&mut program)
        .expect("duplicate the descriptor");
    let output = program.output().expect("iproute2 is installed");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Sends one ICMP echo request, and returns the time until its reply; `None` if there is none
/// within `patience`.
pub(crate) fn ping(from: &Namespace, to: Ipv4Addr, patience: Duration) -> Option<Duration> {
    const ECHO_REQUEST: u8 = 8;
    const ECHO_REPLY: u8 = 0;
    from.run(|| {
        let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))
            .expect("a raw socket");
        set_socket_timeout(&raw, Timeout::Recv, Some(patience)).expect("a timeout");
        // Type, code, checksum (of eight bytes, of which the other six sum to 8 << 8), identifier
        // and sequence number.
        let request = [ECHO_REQUEST, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let started = Instant::now();
        let target = SocketAddrV4::new(to, 0);
        sendto(&raw, &request, SendFlags::empty(), &target).expect("send an echo");
        let mut reply = [0; 128];
        loop {
            match recv(&raw, &mut reply, RecvFlags::empty()) {
                Ok((len, _)) if len >= 28 && reply[20] == ECHO_REPLY => {
                    return Some(started.elapsed());
                }
                Ok(_) if started.elapsed() < patience => {}
                Ok(_) => return None,
                Err(error) if std::io::Error::from(error).kind() == ErrorKind::WouldBlock => {
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
    })
    .expect("enter the namespace")
}
