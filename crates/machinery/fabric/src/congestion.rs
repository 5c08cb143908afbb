//! CUBIC in virtual time, as a congestion control of this machine's kernel.
//!
//! The kernel's own CUBIC measures the machine's time. Where virtual time skips, almost none of it
//! passes, and a window hardly grows. This one is a BPF program (`bpf/cubic.bpf.c`) that reads the
//! virtual time at which the simulated network delivers frames.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use aya_obj::btf::Btf;
use aya_obj::generated::bpf_insn;
use aya_obj::{Object, Program};
use timeloom_sys::congestion::{CongestionRegistration, load_member, register};
use timeloom_sys::shared_memory::SharedWords;
use timeloom_time::{Instant, Virtual};

use crate::btf::Structure;
use crate::error::KernelError;

/// CUBIC in virtual time, as a congestion control of the kernel. New connections can select it as
/// long as this value exists.
#[derive(Debug)]
pub struct VirtualCubic {
    name: String,
    clock: SharedWords,
    _registered: CongestionRegistration,
}

impl VirtualCubic {
    /// Registers a congestion control with the kernel, under a unique name.
    ///
    /// # Errors
    /// Fails before Linux 6.4, without BTF, or if this process may not load programs (CAP_BPF and
    /// CAP_NET_ADMIN of the initial user namespace).
    pub fn register() -> Result<Self, KernelError> {
        Self::registered()
            .map_err(|error| KernelError::new("registering CUBIC as a BPF program", error))
    }

    fn registered() -> io::Result<Self> {
        let map = SharedWords::create_map()?;
        let clock = SharedWords::of(&map)?;
        let types = std::fs::read(BTF)?;
        let find = |name| Structure::find(&types, name).ok_or_else(|| lacks(name));
        let (outer, inner) = (find(VALUE)?, find(STRUCTURE)?);
        let programs = programs(&types, &map, &inner)?;
        let name = name();
        let bytes = filled(&outer, &inner, &name, &programs).ok_or_else(|| lacks("this shape"))?;
        let registered = register(outer.id, &bytes)?;
        Ok(Self {
            name,
            clock,
            _registered: registered,
        })
    }

    /// Returns the name of the congestion control in the kernel (TCP_CONGESTION): `cubic_` and
    /// digits.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the time that the congestion control reads: the virtual time of the acknowledgements
    /// that are delivered next.
    pub fn set_time(&self, now: Instant<Virtual>) {
        let now_ns = now.as_ns().max(0) as u64;
        self.clock.get(0).store(now_ns, Ordering::Release);
    }
}

/// Loads the programs for a kernel with these `types`. They read their time from the map `clock`.
/// Returns each program with the name of its member in the kernel's structure.
fn programs(
    types: &[u8],
    clock: &OwnedFd,
    structure: &Structure,
) -> io::Result<Vec<(String, OwnedFd)>> {
    let mut object = Object::parse(&OBJECT.0).map_err(io::Error::other)?;
    let btf = Btf::parse(types, object.endianness).map_err(io::Error::other)?;
    object.relocate_btf(&btf).map_err(io::Error::other)?;
    let maps: Vec<_> = object.maps.drain().collect();
    let clock = clock.as_raw_fd();
    let maps = maps.iter().map(|(name, map)| (name.as_str(), clock, map));
    let texts: HashSet<usize> = object.functions.keys().map(|(text, _)| *text).collect();
    object
        .relocate_maps(maps, &texts)
        .map_err(io::Error::other)?;
    object.relocate_calls(&texts).map_err(io::Error::other)?;
    let load = |(name, program): (&String, &Program)| {
        let (member, _) = structure.member(name).ok_or_else(|| lacks(name))?;
        let function = &object.functions[&program.function_key()];
        let code: Vec<_> = function.instructions.iter().map(bytes).collect();
        let loaded = load_member(&code, structure.id, member);
        let explain = |error: io::Error| io::Error::new(error.kind(), format!("`{name}`: {error}"));
        Ok((name.clone(), loaded.map_err(explain)?))
    };
    object.programs.iter().map(load).collect()
}

/// Returns the content of the kernel's structure; `None` if this kernel's structure has another
/// layout.
fn filled(
    outer: &Structure,
    inner: &Structure,
    name: &str,
    programs: &[(String, OwnedFd)],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; outer.size];
    let (_, data) = outer.member("data")?;
    let own = bytes.get_mut(data..data.checked_add(inner.size)?)?;
    let mut put = |member: &str, value: &[u8]| {
        let (_, at) = inner.member(member)?;
        own.get_mut(at..at.checked_add(value.len())?)?
            .copy_from_slice(value);
        Some(())
    };
    for (member, program) in programs {
        put(member, &(program.as_raw_fd() as u64).to_ne_bytes())?;
    }
    put("flags", &TCP_CONG_NON_RESTRICTED.to_ne_bytes())?;
    put("name", name.as_bytes())?;
    Some(bytes)
}

/// Returns a random name, so that no two sessions use the same name.
fn name() -> String {
    use std::hash::{BuildHasher, RandomState};
    // At most 15 characters (TCP_CA_NAME_MAX).
    format!("cubic_{:08x}", RandomState::new().hash_one(0) as u32)
}

fn bytes(instruction: &bpf_insn) -> [u8; 8] {
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    let [a, b] = instruction.off.to_ne_bytes();
    let [c, d, e, f] = instruction.imm.to_ne_bytes();
    [instruction.code, registers, a, b, c, d, e, f]
}

fn lacks(what: &str) -> io::Error {
    io::Error::other(format!("{STRUCTURE} of this kernel lacks `{what}`"))
}

const BTF: &str = "/sys/kernel/btf/vmlinux";
const STRUCTURE: &str = "tcp_congestion_ops";
const VALUE: &str = "bpf_struct_ops_tcp_congestion_ops";
/// Flag that permits every program to select the congestion control (Linux, include/net/tcp.h).
const TCP_CONG_NON_RESTRICTED: u32 = 1;

/// Object compiled from `bpf/cubic.bpf.c` by `scripts/bpf`.
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../bpf/cubic.bpf.o"));

#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
