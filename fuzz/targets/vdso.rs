//! The vDSO of another process, which may have written over it: whatever its bytes
//! say, no jump is planned outside of it.
//!
//! Input: two bytes of the mapping's length in units of 16 bytes, one that says what
//! follows. 0: the bytes themselves. Else: changes of this kernel's vDSO, two bytes of
//! offset and one of value each; and if it is odd, the mapping is as long as that.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
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
});

/// This process's own.
static OWN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let (from, to) = line
        .and_then(|line| line.split_once(' '))
        .and_then(|(range, _)| range.split_once('-'))
        .expect("Linux has a vDSO");
    let number = |text| usize::from_str_radix(text, 16).expect("a number");
    let (from, to) = (number(from), number(to));
    // SAFETY: the kernel has mapped it for reading, for good.
    unsafe { std::slice::from_raw_parts(from as *const u8, to - from) }.to_vec()
});
