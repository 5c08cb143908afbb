//! Congestion controls of the kernel's TCP as BPF programs (`struct_ops`).
//!
//! Linux, Documentation/bpf/map_struct_ops: each program is loaded as a member of `struct
//! tcp_congestion_ops`. A map of type STRUCT_OPS holds one such structure, and a link registers it
//! until the link's descriptor is closed (Linux 6.4).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::bpf_call::{
    BPF_BTF_LOAD, BPF_LINK_CREATE, BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD, LICENCE,
    LinkCreate, MapCreate, bpf,
};

/// Loads a program as member number `member` of the kernel's structure with the type number
/// `structure`. An instruction has the 8 bytes of `struct bpf_insn`.
///
/// # Errors
/// Fails as the kernel does. If its verifier refuses the program, the error ends with the last
/// lines of its report.
pub fn load_member(instructions: &[[u8; 8]], structure: u32, member: u32) -> io::Result<OwnedFd> {
    let mut load = ProgramLoad {
        kind: BPF_PROG_TYPE_STRUCT_OPS,
        length: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        name: *b"timeloom_tcp\0\0\0\0",
        member,
        structure,
        ..ProgramLoad::default()
    };
    // SAFETY: the command reads its attributes and the data they point at, which outlives it, and
    // returns a descriptor that is ours.
    let loaded = unsafe { bpf(BPF_PROG_LOAD, &load) };
    let error = match loaded {
        // SAFETY: as above.
        Ok(descriptor) => return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        Err(error) => error,
    };
    let mut report = vec![0u8; REPORT];
    load.report_level = 1;
    load.report_size = report.len() as u32;
    load.report = report.as_mut_ptr() as u64;
    // SAFETY: as above; the kernel writes at most `report_size` bytes to `report`.
    if let Ok(descriptor) = unsafe { bpf(BPF_PROG_LOAD, &load) } {
        // SAFETY: as above.
        return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
    let end = report.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&report[..end.unwrap_or(report.len())]);
    let mut last: Vec<&str> = text.lines().rev().take(REPORT_LINES).collect();
    last.reverse();
    Err(io::Error::new(
        error.kind(),
        format!("{error}: {}", last.join("; ")),
    ))
}

/// Registered congestion control. It stays registered until this value is dropped or the process
/// ends. Connections that use it keep it until they end.
#[derive(Debug)]
pub struct CongestionRegistration {
    _link: OwnedFd,
}

/// Registers a structure, given as the bytes of the kernel's `bpf_struct_ops_...` type with the
/// type number `kind`. Where the kernel has a pointer to a function, the bytes contain the
/// descriptor of a program.
///
/// # Errors
/// Fails as the kernel does: with EEXIST if its name is taken, with EINVAL before Linux 6.4.
pub fn register(kind: u32, bytes: &[u8]) -> io::Result<CongestionRegistration> {
    let types = some_types()?;
    let create = MapCreate {
        kind: BPF_MAP_TYPE_STRUCT_OPS,
        types: types.as_raw_fd() as u32,
        key_size: size_of::<u32>() as u32,
        value_size: bytes.len() as u32,
        entries: 1,
        flags: BPF_F_LINK,
        value_kind: kind,
        ..MapCreate::default()
    };
    // SAFETY: the command reads its attributes, and returns a descriptor that is ours.
    let map = unsafe { OwnedFd::from_raw_fd(bpf(BPF_MAP_CREATE, &create)?) };
    let key = 0u32;
    let update = MapUpdate {
        map: map.as_raw_fd() as u32,
        unused: 0,
        key: &raw const key as u64,
        value: bytes.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the command reads its attributes, the key, and as many bytes as the map's values
    // have, which is the length of `bytes`.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update)? };
    let link = LinkCreate {
        program: map.as_raw_fd() as u32,
        target: 0,
        attach_type: BPF_STRUCT_OPS,
        flags: 0,
    };
    // SAFETY: the command reads its attributes, and returns a descriptor that is ours. The link
    // keeps the map, and the map its programs.
    let link = unsafe { OwnedFd::from_raw_fd(bpf(BPF_LINK_CREATE, &link)?) };
    Ok(CongestionRegistration { _link: link })
}

/// Loads a description of types (BTF), which the kernel demands for a map of this type although it
/// reads none of it: one pointer to void, and no name.
fn some_types() -> io::Result<OwnedFd> {
    let words: [u32; 9] = [
        BTF_MAGIC | 1 << 16,
        24, // size of the header
        0,
        12, // offset and size of the types
        12,
        1, // of the names
        0,
        BTF_KIND_PTR << 24,
        0,
    ];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.push(0);
    let load = TypesLoad {
        bytes: bytes.as_ptr() as u64,
        report: 0,
        length: bytes.len() as u32,
        report_size: 0,
        report_level: 0,
        flags: 0,
    };
    // SAFETY: the command reads its attributes and the bytes, which outlive it, and returns a
    // descriptor that is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(bpf(BPF_BTF_LOAD, &load)?) })
}

/// Maximum size of the verifier's report, in bytes.
const REPORT: usize = 1 << 20;
/// Number of the report's last lines that an error contains.
const REPORT_LINES: usize = 4;

// Linux, include/uapi/linux/bpf.h.
const BPF_MAP_TYPE_STRUCT_OPS: u32 = 26;
const BPF_PROG_TYPE_STRUCT_OPS: u32 = 27;
const BPF_STRUCT_OPS: u32 = 44;
const BTF_MAGIC: u32 = 0xeb9f;
const BTF_KIND_PTR: u32 = 2;
const BPF_F_LINK: u32 = 1 << 13;

/// union bpf_attr, as BPF_BTF_LOAD reads it.
#[repr(C)]
struct TypesLoad {
    bytes: u64,
    report: u64,
    length: u32,
    report_size: u32,
    report_level: u32,
    flags: u32,
}

/// union bpf_attr, as BPF_MAP_UPDATE_ELEM reads it.
#[repr(C)]
struct MapUpdate {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// union bpf_attr, as BPF_PROG_LOAD reads it.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    length: u32,
    instructions: u64,
    licence: u64,
    report_level: u32,
    report_size: u32,
    report: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    /// Number of the member (`expected_attach_type`).
    member: u32,
    /// Descriptor of BTF, and records of functions and lines in it.
    none: [u32; 2],
    functions: u64,
    more: [u32; 2],
    lines: u64,
    line_count: u32,
    /// Type of the structure in the kernel's own BTF (`attach_btf_id`).
    structure: u32,
    program: u32,
    tail: u32,
}

const _: () = assert!(std::mem::offset_of!(ProgramLoad, member) == 68);
const _: () = assert!(std::mem::offset_of!(ProgramLoad, structure) == 108);
