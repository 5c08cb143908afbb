//! Guests and their clients: memory of a program read by the supervisor, system calls of a program,
//! bytes from the control socket.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

/// Bytes from a client of the control socket.
pub(crate) fn control_socket(sent: &[u8]) {
    timeloom_guest::fuzzing::control(sent);
}

/// Initial stack of an executed program in another process: the vDSO address that its supervisor
/// finds there must be the auxiliary vector's entry, or none.
///
/// Input: words of eight bytes; the last may be incomplete.
pub(crate) fn initial_stack(input: &[u8]) {
    let words = input.chunks_exact(8);
    let stack: Vec<u64> = words
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        .collect();
    timeloom_guest::fuzzing::initial_stack(&stack);
}

/// A system call of a guest: the seccomp filter, run by an interpreter, must agree with the
/// documented table of calls.
///
/// Input: one byte (bit 0: of another architecture; bit 1: near the image), four of the number or
/// the index in the table (see `fuzzing::call`), eight of the instruction's address, and eight of
/// each argument; four of the architecture. Missing bytes are zero.
pub(crate) fn seccomp_call(input: &[u8]) {
    let mut bytes = [0; 65];
    let length = input.len().min(bytes.len());
    bytes[..length].copy_from_slice(&input[..length]);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let mut address = word(5);
    if bytes[0] & 2 != 0 {
        // In the image, or directly beside it.
        address = (address % 0x2_0000).wrapping_add(timeloom_guest::fuzzing::IMAGE - 0x8000);
    }
    let args = core::array::from_fn(|index| word(13 + 8 * index));
    let architecture = (bytes[0] & 1 != 0).then_some(half(61));
    timeloom_guest::fuzzing::call(architecture, half(1) as i32, address, args);
}

/// The vDSO of another process, which may have overwritten it: for any contents, no jump outside of
/// it is planned.
///
/// Input: two bytes of the mapping's length in units of 16 bytes, one byte of kind. 0: the vDSO's
/// bytes follow. Else: changes of this kernel's vDSO follow, two bytes of offset and one of value
/// each; and if the kind is odd, the mapping has the vDSO's length.
pub(crate) fn vdso(input: &[u8]) {
    let [low, high, kind, rest @ ..] = input else {
        return;
    };
    let mut length = 16 * u64::from(u16::from_le_bytes([*low, *high]));
    let mut bytes = rest.to_vec();
    if *kind != 0 {
        bytes.clone_from(&OWN);
        for change in rest.chunks_exact(3) {
            let at = u16::from_le_bytes([change[0], change[1]]);
            if let Some(byte) = bytes.get_mut(usize::from(at)) {
                *byte = change[2];
            }
        }
        if kind % 2 == 1 {
            length = bytes.len() as u64;
        }
    }
    let start = 0x7ffc_0000_0000;
    timeloom_guest::fuzzing::vdso(&bytes, &(start..start + length));
}

/// This process's own vDSO.
static OWN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let (from, to) = line
        .and_then(|line| line.split_once(' '))
        .and_then(|(range, _)| range.split_once('-'))
        .expect("Linux has a vDSO");
    let number = |text| usize::from_str_radix(text, 16).expect("a number");
    let (from, to) = (number(from), number(to));
    let mut bytes = vec![0; to - from];
    let memory = File::open("/proc/self/mem").expect("our own");
    let read = memory.read_exact_at(&mut bytes, from as u64);
    read.expect("the kernel has mapped it for reading, for good");
    bytes
});
