//! Search for entries of the auxiliary vector on a program's initial stack.
//!
//! The kernel has written the stack, but another process's memory is untrusted: whatever its
//! contents, the search ends, and returns only entries of the right type.

use std::ops::Range;

/// Returns the position of the value of AT_SYSINFO_EHDR on the stack, in words from the stack
/// pointer. Returns `None` if there is no such entry (a kernel booted with `vdso=0`).
pub(crate) fn vdso_entry<E>(word: impl Fn(usize) -> Result<u64, E>) -> Result<Option<usize>, E> {
    entry(AT_SYSINFO_EHDR, word)
}

/// Returns the position of the value of the entry of type `kind` on the stack, in words from the
/// stack pointer. Returns `None` if there is no such entry.
///
/// At the first instruction of a program the stack holds: the number of its arguments, the
/// arguments, 0, the environment, 0, and the auxiliary vector, pairs (type, value) up to AT_NULL.
/// `word` returns a word of the stack; if it returns an error, the search ends with that error.
pub(crate) fn entry<E>(
    kind: u64,
    word: impl Fn(usize) -> Result<u64, E>,
) -> Result<Option<usize>, E> {
    let Some(mut at) = begin(&word)? else {
        return Ok(None);
    };
    while at <= MOST_WORDS {
        match word(at)? {
            found if found == kind => return Ok(Some(at + 1)),
            AT_NULL => return Ok(None),
            _ => at += 2,
        }
    }
    Ok(None)
}

/// Returns the range of stack words that the whole auxiliary vector occupies, including AT_NULL.
pub(crate) fn whole<E>(word: impl Fn(usize) -> Result<u64, E>) -> Result<Option<Range<usize>>, E> {
    let begin = begin(&word)?;
    let end = entry(AT_NULL, word)?;
    Ok(begin.zip(end).map(|(begin, end)| begin..end + 1))
}

fn begin<E>(word: &impl Fn(usize) -> Result<u64, E>) -> Result<Option<usize>, E> {
    let arguments = word(0)?.min(MOST_WORDS as u64) as usize;
    let mut at = 1 + arguments + 1;
    while word(at)? != 0 {
        at += 1; // environment
        if at > MOST_WORDS {
            return Ok(None);
        }
    }
    Ok(Some(at + 1))
}

const AT_NULL: u64 = 0;
const AT_SYSINFO_EHDR: u64 = 33;
/// Type of the entry with the minimum size of a signal stack.
pub(crate) const AT_MINSIGSTKSZ: u64 = 51;
/// Maximum number of stack words that are searched. Linux allows 2^31 - 1 strings, but they must
/// fit into a quarter of the stack's limit, at eight bytes and a pointer each.
const MOST_WORDS: usize = 1 << 26;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_random::Random;

    fn on(stack: &[u64]) -> Result<Option<usize>, usize> {
        vdso_entry(|index| stack.get(index).copied().ok_or(index))
    }

    #[test]
    fn our_own_stack_has_the_entry_that_the_kernel_tells() {
        // SAFETY: the call only returns a value.
        let told = unsafe { libc::getauxval(AT_SYSINFO_EHDR) };
        let auxv = std::fs::read("/proc/self/auxv").expect("our own");
        let words = auxv
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight")));
        let stack: Vec<u64> = [1, 0x7fff_0000, 0, 0].into_iter().chain(words).collect();
        let at = on(&stack).expect("all there").expect("Linux has a vDSO");
        assert_eq!(stack[at], told);
    }

    /// Searches stacks that are built like the kernel's, with random contents.
    #[test]
    fn the_entry_is_found_wherever_it_lies() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed, 0);
            let (arguments, variables) = (random.below(20), random.below(40));
            let mut stack = vec![arguments];
            stack.extend((0..arguments).map(|_| random.bits() | 1));
            stack.push(0);
            stack.extend((0..variables).map(|_| random.bits() | 1));
            stack.push(0);
            let pairs = random.below(30);
            // A value may be any number, also the number of the requested type.
            for _ in 0..pairs {
                let kind = 34 + random.below(100);
                let value = [AT_SYSINFO_EHDR, AT_NULL, random.bits()][random.below(3) as usize];
                stack.extend([kind, value]);
            }
            let expected = (random.below(4) > 0).then(|| {
                stack.extend([AT_SYSINFO_EHDR, 0x7000]);
                stack.len() - 1
            });
            stack.extend([AT_NULL, 0]);
            assert_eq!(on(&stack), Ok(expected), "seed {seed}: {stack:x?}");
            let pairs = 2 * (pairs as usize + usize::from(expected.is_some()) + 1);
            let whole = whole(|index| stack.get(index).copied().ok_or(index));
            assert_eq!(whole, Ok(Some(stack.len() - pairs..stack.len())));
        }
    }

    /// For arbitrary contents the search ends, and its result is an entry of the requested type.
    #[test]
    fn nonsense_is_survived() {
        for seed in 0..20_000 {
            let mut random = Random::new(seed, 0);
            let stack: Vec<u64> = (0..random.below(64))
                .map(|_| match random.below(4) {
                    0 => 0,
                    1 => random.below(40),
                    2 => u64::MAX,
                    _ => random.bits(),
                })
                .collect();
            if let Ok(Some(at)) = on(&stack) {
                assert_eq!(stack[at - 1], AT_SYSINFO_EHDR, "seed {seed}");
            }
        }
    }
}
