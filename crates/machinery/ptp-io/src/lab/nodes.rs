//! Programs at the nodes of the chain, and the keys created for them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, spawn};

use timeloom_wire::TimeInterval;

use super::chain::{Chain, Site, aside};
use super::ptp4l::Ptp4l;
use super::{Attack, LabOptions, NodeKind};
use crate::keys::{SignRequest, make_authority, make_node, sign_ring};
use crate::{
    Auth, Channel, Counters, Evidence, EvidenceLine, Names, Observer, Program, ProgramOptions,
    PtpError, Wake,
};

/// Running program of a node.
pub(super) enum Running {
    Ours {
        wake: Wake,
        thread: JoinHandle<Result<Counters, PtpError>>,
    },
    Ptp4l(Ptp4l),
}

/// Amount by which a lying hop overstates its residence time.
const LIE: TimeInterval = TimeInterval::from_ns(5_000);
/// UDP port for statements on the second network.
const STATEMENT_PORT: u16 = 3190;

fn keys_of(directory: &Path, name: &str) -> PathBuf {
    directory.join("keys").join(name)
}

/// Creates an authority, a key for each of Timeloom's programs, and a ring for all of them.
pub(super) fn make_keys(options: &LabOptions, chain: &Chain) -> Result<(), PtpError> {
    let Some(auth) = options.auth else {
        return Ok(());
    };
    let all = options.directory.join("keys");
    // The directory may be left from an earlier run.
    let _ = std::fs::remove_dir_all(&all);
    make_authority(&all)?;
    let ours: Vec<_> = chain
        .sites
        .iter()
        .zip(&options.nodes)
        .filter(|(_, kind)| **kind == NodeKind::Ours)
        .map(|(site, _)| site)
        .collect();
    let mut request = SignRequest {
        authority: all.join("authority.key"),
        ring: all.join("ring.toml"),
        grandmasters: if options.nodes[0] == NodeKind::Ours {
            vec!["gm".to_owned()]
        } else {
            Vec::new()
        },
        ..SignRequest::default()
    };
    for site in &ours {
        let directory = keys_of(&options.directory, &site.name);
        make_node(
            &directory,
            &site.name,
            &site.clock.to_string(),
            auth.suite,
            2,
        )?;
        request.publics.push(directory.join("node.pub"));
    }
    sign_ring(&request)?;
    for site in &ours {
        for file in ["ring.toml", "authority.pub"] {
            let to = keys_of(&options.directory, &site.name).join(file);
            std::fs::copy(all.join(file), &to).map_err(PtpError::file(&to))?;
        }
    }
    Ok(())
}

/// Starts the program of the node with index `node`.
pub(super) fn start(
    options: &LabOptions,
    node: usize,
    chain: &Chain,
    sink: Box<dyn FnMut(EvidenceLine) + Send>,
) -> Result<Running, PtpError> {
    let site = &chain.sites[node];
    if options.nodes[node] == NodeKind::Ptp4l {
        return Ok(Running::Ptp4l(Ptp4l::start(
            &site.name,
            &site.namespace,
            &site.interfaces,
            options.role(node),
            options,
        )?));
    }
    let program = program(options, node, chain)?;
    let names = match &program.auth {
        Some(auth) => auth.names(),
        None => Names(
            chain
                .sites
                .iter()
                .map(|site| (site.clock, site.name.clone()))
                .collect(),
        ),
    };
    let evidence = Evidence::new(&site.name, names, sink);
    let wake = Wake::new().map_err(PtpError::doing("open a socket pair"))?;
    let told = wake.clone();
    let program = open(site, program, told, Box::new(evidence))?;
    let thread = spawn(move || program.run());
    Ok(Running::Ours { wake, thread })
}

/// Returns the options of Timeloom's program at the node with index `node`.
pub(super) fn program(
    options: &LabOptions,
    node: usize,
    chain: &Chain,
) -> Result<ProgramOptions, PtpError> {
    let site = &chain.sites[node];
    let interfaces = site
        .interfaces
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    let mut program = ProgramOptions::new(options.role(node), interfaces);
    program.transport = options.transport;
    program.profile = options.profile;
    program.profile.priority.0 = if node == 0 { 100 } else { 200 };
    program.jump_bound = options.jump_bound;
    if let Some(group) = &options.group {
        let mut group = group.clone();
        if options.group_stranger == Some(node) {
            group.key = group.key.chars().rev().collect();
        }
        program.group = Some(group.key()?);
    }
    if options.attack == Some((Attack::Lie, node)) {
        program.asymmetry = vec![LIE, LIE];
    }
    if let Some(auth) = options.auth {
        let channel = if auth.secondary {
            Channel::Secondary
        } else {
            Channel::Inline(auth.suite)
        };
        let keys = keys_of(&options.directory, &site.name);
        let max_hops = options.profile.max_hops;
        program.auth = Some(Auth::open(
            &keys,
            program.role,
            channel,
            options.policy,
            auth.form,
            max_hops,
        )?);
        program.second = auth.secondary.then(|| second(node, chain.sites.len()));
    }
    Ok(program)
}

/// Opens the sockets of `program` in the namespace of its node. Sockets belong to the namespace in
/// which they were opened, whichever thread uses them.
pub(super) fn open(
    site: &Site,
    program: ProgramOptions,
    wake: Wake,
    observer: Box<dyn Observer>,
) -> Result<Program, PtpError> {
    site.namespace
        .run(move || Program::open(program, wake, observer))?
}

/// Returns the address of `node` on the second network, and the addresses to which it sends.
fn second(node: usize, count: usize) -> (SocketAddr, Vec<SocketAddr>) {
    let [near, far] = aside(node);
    if node + 1 == count {
        return (
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, STATEMENT_PORT)),
            Vec::new(),
        );
    }
    (
        SocketAddr::from((near, STATEMENT_PORT)),
        vec![SocketAddr::from((far, STATEMENT_PORT))],
    )
}
