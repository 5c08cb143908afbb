//! Untrusted input from guests and their clients: memory of a guest that the supervisor reads,
//! system calls of a guest, and bytes at the control socket.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

/// Tests the bytes that a client sends to the control socket.
pub(crate) fn control_socket(sent: &[u8]) {
    timeloom_guest::fuzzing::control(sent);
}

/// Tests the initial stack of a program that was executed in another process. The supervisor must
/// find the vDSO's address of the auxiliary vector's entry, or none.
///
/// Input: words of eight bytes; the last may be incomplete.
pub(crate) fn initial_stack(input: &[u8]) {
    let words = input.chunks_exact(8);
    let stack: Vec<u64> = words
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        .collect();
    timeloom_guest::fuzzing::initial_stack(&stack);
}

/// Tests a system call of a guest: the seccomp filter, run by an interpreter, must agree with the
/// documented table of calls.
///
/// Input: one byte (bit 0: other architecture; bit 1: address near the image), four for the number
/// or the index in the table (see `fuzzing::call`), eight for the address of the instruction, eight
/// for each argument, and four for the architecture. Missing bytes are zero.
pub(crate) fn seccomp_call(input: &[u8]) {
    let mut bytes = [0; 65];
    let length = input.len().min(bytes.len());
    bytes[..length].copy_from_slice(&input[..length]);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let mut address = word(5);
    if bytes[0] & 2 != 0 {
        // The address is in the image, or directly before or after it.
        address = (address % 0x2_0000).wrapping_add(timeloom_guest::fuzzing::IMAGE - 0x8000);
    }
    let args = core::array::from_fn(|index| word(13 + 8 * index));
    let architecture = (bytes[0] & 1 != 0).then_some(half(61));
    timeloom_guest::fuzzing::call(architecture, half(1) as i32, address, args);
}

/// Tests the vDSO of another process, which may have overwritten it. Whatever it contains, the
/// supervisor must not plan a jump outside of it.
///
/// Input: two bytes for the mapping's length in units of 16 bytes, and one for the kind. For kind
/// 0, the bytes of the vDSO follow. For other kinds, changes of this kernel's vDSO follow, each
/// with two bytes for the offset and one for the value; if the kind is odd, the mapping has the
/// vDSO's length.
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

/// The vDSO of this process.
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
