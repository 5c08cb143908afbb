//! Interface for `timeloom-hostile` and the fuzzers in `fuzz/`, not for programs. It gives access
//! to the parts that read another process's bytes, and to the filter, and checks their invariants.

use std::ops::Range;

use timeloom_abi::IMAGE_ADDRESS;

/// Address of the image. The filter lets calls from there pass.
pub const IMAGE: u64 = IMAGE_ADDRESS;

use crate::arch;
use crate::control::protocol::Lines;
use crate::enter::{auxv, vdso};
use crate::filter::oracle::{
    by_the_table, by_the_table_registered, outcome, outcome_dating, outcome_emulating,
    outcomes_registered,
};
use crate::filter::{self, REFUSE};

/// Checks the parser of the control socket with all data of one connection. Each line must be a
/// refusal, or a request that a round trip through its text form does not change.
///
/// # Panics
/// Panics if an invariant is violated.
pub fn control(sent: &[u8]) {
    let mut lines = Lines::new(sent);
    let mut count = 0;
    while let Some(line) = lines.next_request() {
        match line {
            Ok(request) => {
                let text = serde_json::to_vec(&request).expect("plain data");
                let again = Lines::new(text.as_slice()).next_request();
                assert_eq!(again.and_then(Result::ok), Some(request));
            }
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
        count += 1;
        assert!(count <= sent.len(), "each line has a byte at least");
    }
}

/// Checks the search on a program's initial stack, given as words. The result must be the entry
/// according to the stack's layout, or its absence. A truncated stack must be detected.
///
/// # Panics
/// Panics if an invariant is violated.
pub fn initial_stack(stack: &[u64]) {
    let found = auxv::vdso_entry(|index| stack.get(index).copied().ok_or(()));
    assert_eq!(found, by_the_layout(stack).ok_or(()), "{stack:x?}");
}

/// Searches like [`auxv::vdso_entry`], but parses the whole stack. Returns `None` if it is
/// truncated.
fn by_the_layout(stack: &[u64]) -> Option<Option<usize>> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let arguments = usize::try_from(*stack.first()?).ok()?;
    let environment = arguments.checked_add(2)?;
    let length = stack
        .get(environment..)?
        .iter()
        .position(|word| *word == 0)?;
    let vector = environment + length + 1;
    for pair in (vector..).step_by(2) {
        match *stack.get(pair)? {
            0 => return Some(None),
            AT_SYSINFO_EHDR => return Some(Some(pair + 1)),
            _ => {}
        }
    }
    None
}

/// Checks the plan of a redirection for bytes that a process claims are its vDSO, mapped at
/// `range`. Each planned jump must be entirely in that range, lead to a function of the image, and
/// be planned once.
///
/// # Panics
/// Panics if an invariant is violated.
pub fn vdso(bytes: &[u8], range: &Range<u64>) {
    let ours = |name: &str| {
        let name = name
            .strip_prefix("__vdso_")
            .or(name.strip_prefix("__kernel_"));
        let index = [
            "clock_gettime",
            "gettimeofday",
            "time",
            "getcpu",
            "clock_getres",
        ]
        .iter()
        .position(|known| Some(*known) == name)?;
        Some(IMAGE_ADDRESS + 0x1000 + 64 * index as u64)
    };
    let Ok(jumps) = vdso::jumps(bytes, range, ours) else {
        return;
    };
    for (index, jump) in jumps.iter().enumerate() {
        let inside = range.contains(&jump.at) && range.end - jump.at >= arch::JUMP_BYTES as u64;
        assert!(inside, "{jump:x?} is not in {range:x?}");
        assert!(jump.at.is_multiple_of(arch::INSTRUCTION_ALIGN as u64));
        for other in &jumps[..index] {
            let apart = other.at.abs_diff(jump.at) >= arch::JUMP_BYTES as u64;
            assert!(apart, "{jump:x?} and {other:x?}");
        }
    }
}

/// Checks that the filters of all kinds of guests treat a call as the table states. `number` is an
/// index in that table, or, if negative, a call's number minus 2^31.
///
/// # Panics
/// Panics if an invariant is violated.
pub fn call(foreign_architecture: Option<u32>, number: i32, address: u64, args: [u64; 6]) {
    let listed: Vec<_> = timeloom_abi::calls::calls()
        .filter_map(|call| call.number())
        .collect();
    let number = match usize::try_from(number) {
        Ok(place) => listed[place % listed.len()].into(),
        Err(_) => i64::from(number & i32::MAX),
    };
    if let Some(architecture) = foreign_architecture.filter(|it| *it != arch::AUDIT_ARCH) {
        assert_eq!(outcome(architecture, number, address, args), REFUSE);
        assert_eq!(
            outcome_emulating(architecture, number, address, args),
            REFUSE
        );
        return;
    }
    let told = || format!("call {number} at {address:x} with {args:x?}");
    let native = arch::AUDIT_ARCH;
    assert_eq!(
        outcome(native, number, address, args),
        by_the_table(filter::Guest::Launched, number, address, args),
        "{}",
        told()
    );
    assert_eq!(
        outcome_emulating(native, number, address, args),
        by_the_table(filter::Guest::EmulatingTsc, number, address, args),
        "{}, emulating",
        told()
    );
    assert_eq!(
        outcome_dating(number, address, args),
        by_the_table(filter::Guest::DatingFiles, number, address, args),
        "{}, dating files",
        told()
    );
    assert_eq!(
        outcomes_registered(number, address, args),
        by_the_table_registered(number, address, args),
        "{}, registered",
        told()
    );
}
