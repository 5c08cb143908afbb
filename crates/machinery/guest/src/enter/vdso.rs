//! Planned changes to the kernel's vDSO of a program, by which its functions jump to the image.
//!
//! The bytes come from another process. Whatever their contents, every planned jump lies entirely
//! in the vDSO.

use std::fmt;
use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

use crate::arch;

/// Jump instruction to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// Address of the jump in the process.
    pub(crate) at: u64,
    /// Address to which the jump leads.
    pub(crate) to: u64,
}

/// Reason why a kernel's vDSO cannot be redirected; most variants contain the function's name.
#[derive(Debug)]
pub(crate) enum JumpError {
    /// The vDSO is not an ELF file.
    Unreadable(object::Error),
    /// A jump does not fit into the function.
    TooShort(String),
    /// The address of a function is not that of an instruction.
    NotCode(String),
    /// The jump would overlap another function's jump.
    Overlaps(String),
}

impl fmt::Display for JumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the kernel's vDSO cannot be read: {error}"),
            Self::TooShort(name) => {
                write!(f, "the kernel's {name} is too short to be redirected")
            }
            Self::NotCode(name) => write!(f, "the kernel's {name} is not code"),
            Self::Overlaps(name) => write!(f, "the kernel's {name} lies in another function"),
        }
    }
}

/// Returns the jumps for those functions of the vDSO whose names `ours` knows. `bytes` is the
/// vDSO's contents, mapped at `range` in the process. Returns an error if a function cannot be
/// redirected.
pub(crate) fn jumps(
    bytes: &[u8],
    range: &Range<u64>,
    ours: impl Fn(&str) -> Option<u64>,
) -> Result<Vec<Jump>, JumpError> {
    // The parser needs the alignment that a fresh allocation has.
    let elf = ElfFile64::<Endianness>::parse(bytes).map_err(JumpError::Unreadable)?;
    let length = range.end.saturating_sub(range.start);
    let mut jumps: Vec<Jump> = Vec::new();
    for symbol in elf.dynamic_symbols() {
        let Ok(name) = symbol.name() else { continue };
        let Some(to) = ours(name) else { continue };
        // Symbols of a vDSO are relative to its load address.
        let offset = symbol.address().checked_rem(length).unwrap_or(0);
        if length - offset.min(length) < JUMP_BYTES || !has_room(bytes, offset, symbol.size()) {
            return Err(JumpError::TooShort(name.to_owned()));
        }
        if !offset.is_multiple_of(arch::INSTRUCTION_ALIGN as u64) {
            return Err(JumpError::NotCode(name.to_owned()));
        }
        let jump = Jump {
            at: range.start + offset,
            to,
        };
        // A function may appear twice: under its name with and without the prefix.
        if jumps.contains(&jump) {
            continue;
        }
        if jumps
            .iter()
            .any(|other| other.at.abs_diff(jump.at) < JUMP_BYTES)
        {
            return Err(JumpError::Overlaps(name.to_owned()));
        }
        jumps.push(jump);
    }
    Ok(jumps)
}

/// Returns true if a jump fits into the function of this size, or into the function and the unused
/// space after it. (Compilers reduce some functions to a jump of five bytes.)
fn has_room(bytes: &[u8], offset: u64, size: u64) -> bool {
    let Some(missing) = JUMP_BYTES.checked_sub(size) else {
        return true;
    };
    let behind = bytes.get((offset + size) as usize..).unwrap_or_default();
    size > 0 && arch::is_filler(behind, missing as usize)
}

/// Returns the names of functions that may read time, but that [`jumps`] does not redirect because
/// `ours` does not know them.
pub(crate) fn strangers(bytes: &[u8], ours: impl Fn(&str) -> Option<u64>) -> Vec<String> {
    let Ok(elf) = ElfFile64::<Endianness>::parse(bytes) else {
        return Vec::new();
    };
    elf.dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.kind() != SymbolKind::Data)
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .filter(|name| ours(name).is_none() && !arch::KEPT.contains(&name.as_str()))
        .collect()
}

const JUMP_BYTES: u64 = arch::JUMP_BYTES as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_random::Random;

    /// Returns the contents and the address range of this process's own vDSO.
    fn own_vdso() -> (Vec<u8>, Range<u64>) {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
        let line = maps
            .lines()
            .find(|line| line.ends_with("[vdso]"))
            .expect("Linux has a vDSO");
        let (from, to) = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'))
            .expect("a range");
        let number = |text| u64::from_str_radix(text, 16).expect("a number");
        let range = number(from)..number(to);
        // SAFETY: the kernel has mapped it for reading, permanently.
        let bytes = unsafe {
            std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize)
        };
        (bytes.to_vec(), range)
    }

    fn ours(name: &str) -> Option<u64> {
        let plain = name.strip_prefix(arch::VDSO.0).unwrap_or(name);
        let known = [
            "clock_gettime",
            "gettimeofday",
            "time",
            "getcpu",
            "clock_getres",
        ];
        let index = known.iter().position(|one| *one == plain)?;
        Some(timeloom_abi::IMAGE_ADDRESS + 64 * index as u64)
    }

    #[test]
    fn this_kernels_functions_can_all_be_redirected() {
        let (bytes, range) = own_vdso();
        let jumps = jumps(&bytes, &range, ours).expect("a vDSO");
        assert!(jumps.len() >= arch::VDSO.1, "{jumps:?}");
        for jump in jumps {
            assert!(arch::jump(jump.to).ends_with(&jump.to.to_le_bytes()));
        }
    }

    /// Compilers reduce a function that only calls another to a jump of five bytes.
    #[test]
    fn a_jump_may_extend_into_the_padding_behind_a_function() {
        let mut code = vec![0xcc; 64];
        assert!(has_room(&code, 0, JUMP_BYTES));
        assert!(!has_room(&code, 0, 0), "no function");
        assert!(!has_room(&code[..64], 64, 4), "behind the end");
        if cfg!(target_arch = "x86_64") {
            assert!(has_room(&code, 16, 5));
            code[16 + 13] = 0x53;
            assert!(!has_room(&code, 16, 5), "another function");
        }
    }

    /// Changes bytes at random, and cuts off the end. There must be no panic, and no jump that
    /// would be written outside the vDSO.
    #[test]
    fn a_damaged_vdso_is_refused_or_redirected_within_its_bounds() {
        let (good, range) = own_vdso();
        let mut refused = 0;
        for seed in 0..4_000 {
            let mut random = Random::new(seed, 0);
            let mut bytes = good.clone();
            for _ in 0..1 + random.below(12) {
                // Most changes are in the headers and tables, which come first.
                let within = if random.below(4) == 0 {
                    bytes.len()
                } else {
                    0x600
                };
                let at = random.below(within.min(bytes.len()) as u64) as usize;
                bytes[at] = random.bits() as u8;
            }
            if random.below(8) == 0 {
                bytes.truncate(random.below(bytes.len() as u64) as usize);
            }
            match jumps(&bytes, &range, ours) {
                Ok(jumps) => {
                    for jump in jumps {
                        let inside = range.contains(&jump.at) && range.end - jump.at >= JUMP_BYTES;
                        assert!(inside, "seed {seed}: {jump:x?}");
                    }
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 100, "the damage is real: {refused}");
    }
}
