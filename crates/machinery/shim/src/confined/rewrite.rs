//! Rewriting of a program's seccomp filter before its installation.
//!
//! | part | effect |
//! |---|---|
//! | [`BEGINNING`] | answers [`super::has_filter`] |
//! | the program's filter | unchanged, except that each action other than ALLOW jumps to: |
//! | a pair for each action | loads that action, and jumps to: |
//! | [`end`] | lets the image's calls pass; for others decides how the action is returned |
//!
//! Calls that the original filter allows by their number alone are allowed at the same instruction
//! of the rewritten filter. So the kernel can still cache the decision and skip the filter
//! (`seccomp_cache_prepare`).

use timeloom_abi::calls::verdict::{
    ENDS, FORESEE, JUDGE, JUDGED, NOT_PROCEED, PROBE, PROCEED, PROGRAM, STRICT, UNAVAILABLE,
};
use timeloom_abi::calls::{TRAP_MARK, handled_count, handled_numbers};

use crate::arch::AUDIT_ARCH;
use crate::bpf::{
    ACTION, ADDRESS_HIGH, ADDRESS_LOW, ALLOW, ARCHITECTURE, DONE_WITH_LOADED, FIRST_ARGUMENT,
    IMAGE_BEGIN, IMAGE_END, IMAGE_HIGH, Instruction, JUMP, KEEP, LOAD_KEPT, NUMBER, RETURN,
    RETURN_ALLOW, RETURN_ERRNO, RETURN_LOADED, RETURN_LOG, RETURN_NOTIFY, RETURN_TRACE,
    RETURN_TRAP, and, done, if_at_least, if_equal, jump, load, load_constant,
};
use crate::sys::{errno, nr};

use super::MOST_INSTRUCTIONS;

/// Writes the rewritten form of the `count` instructions at `from` to `to`, and returns its length.
/// `is_second` is true if the program already has a filter of its own.
///
/// # Errors
/// Returns EINVAL for instructions that the kernel does not accept as a filter, and ENOMEM for a
/// filter that is too long.
///
/// # Safety
/// There must be `count` instructions at `from`, and room for [`MOST_INSTRUCTIONS`] at `to`.
pub(super) unsafe fn rewrite(
    from: *const Instruction,
    count: usize,
    to: *mut Instruction,
    is_second: bool,
) -> Result<u16, isize> {
    // SAFETY: guaranteed by the caller.
    let original = |index: usize| unsafe { from.add(index).read() };
    let mut output = Output { to, length: 0 };
    output.append(&BEGINNING);
    let pairs = BEGINNING.len() + count;
    output.length = pairs;
    for index in 0..count {
        let instruction = original(index);
        if !jumps_inside(instruction, count - index - 1) {
            return Err(errno::EINVAL);
        }
        if instruction.code == RETURN
            && !is_allow(instruction.k)
            && output.pair_of(pairs, instruction.k).is_none()
        {
            output.push(load_constant(instruction.k));
            output.push(jump(0));
        }
    }
    if count == 0 || !matches!(original(count - 1).code, RETURN | RETURN_LOADED) {
        return Err(errno::EINVAL);
    }
    let end = output.length;
    output.append(if is_second {
        &END_OF_SECOND
    } else {
        &END_OF_FIRST
    });
    if output.length > MOST_INSTRUCTIONS {
        return Err(errno::ENOMEM);
    }
    for index in 0..count {
        let instruction = original(index);
        let at = BEGINNING.len() + index;
        let beyond = |place: usize| jump((place - at - 1) as u32);
        let written = match instruction.code {
            RETURN_LOADED => beyond(end),
            RETURN if !is_allow(instruction.k) => {
                beyond(output.pair_of(pairs, instruction.k).unwrap_or(end))
            }
            _ => instruction,
        };
        output.set(at, written);
    }
    let mut pair = pairs;
    while pair < end {
        output.set(pair + 1, jump((end - pair - 2) as u32));
        pair += 2;
    }
    Ok(output.length as u16)
}

const fn is_allow(action: u32) -> bool {
    action & ACTION == ALLOW
}

/// Returns true unless the instruction jumps beyond the `rest` instructions after it. In the
/// rewritten form such a jump would reach an added instruction; the kernel would refuse it in the
/// original.
fn jumps_inside(instruction: Instruction, rest: usize) -> bool {
    const CLASS: u16 = 7;
    const JUMPS: u16 = 5;
    match instruction.code {
        JUMP => (instruction.k as usize) < rest,
        code if code & CLASS == JUMPS => {
            usize::from(instruction.then) < rest && usize::from(instruction.otherwise) < rest
        }
        _ => true,
    }
}

/// Output buffer. It also counts instructions for which there is no space.
struct Output {
    to: *mut Instruction,
    length: usize,
}

impl Output {
    fn push(&mut self, instruction: Instruction) {
        self.set(self.length, instruction);
        self.length += 1;
    }

    fn append(&mut self, instructions: &[Instruction]) {
        for &instruction in instructions {
            self.push(instruction);
        }
    }

    fn set(&mut self, index: usize, instruction: Instruction) {
        if index < MOST_INSTRUCTIONS {
            // SAFETY: the caller of `rewrite` guarantees this much space.
            unsafe { self.to.add(index).write(instruction) };
        }
    }

    /// Returns the index of the instruction pair for an action. The first pair is at index `pairs`.
    fn pair_of(&self, pairs: usize, action: u32) -> Option<usize> {
        let mut index = pairs;
        while index < self.length && index < MOST_INSTRUCTIONS {
            // SAFETY: `push` has written the instruction.
            if unsafe { self.to.add(index).read() }.k == action {
                return Some(index);
            }
            index += 2;
        }
        None
    }
}

/// First instructions of the rewritten filter: they recognise a call of the image that closes
/// [`PROBE`]. The accumulator is zero afterwards, as at the beginning of every filter.
const BEGINNING: [Instruction; 6] = [
    load(NUMBER),
    if_equal(nr::CLOSE as u32, 0, 3),
    load(FIRST_ARGUMENT),
    if_equal(PROBE, 0, 1),
    done(RETURN_ERRNO | (-errno::ECANCELED) as u32),
    and(0),
];

const HANDLED: usize = handled_count();

// Indices of the parts of [`end`].
const ASKED: usize = 12;
const IN_JUDGEMENT: usize = 22;
const OUTSIDE: usize = 30;
const TRAPS: usize = 39;
const NOTIFIES: usize = 44;
const LISTED: usize = 46;
const AS_IT_IS: usize = LISTED + 1 + HANDLED;
const BY_IMAGE: usize = AS_IT_IS + 2;
const END: usize = BY_IMAGE + 1;

static END_OF_FIRST: [Instruction; END] = end(false);
static END_OF_SECOND: [Instruction; END] = end(true);

/// Returns the last instructions of the rewritten filter, which are entered with an action loaded.
///
/// The session's own filter is older, and where it traps a call, the kernel prefers that trap to an
/// errno of this filter. If the session may trap the call, the image therefore returns the errno to
/// the program; it obtains the errno at [`JUDGE`]. The same applies to an action that ends the
/// program, so that the image can report it first. A trap of another filter must not take
/// precedence over that, so for a second filter the image also delivers the traps.
const fn end(is_second: bool) -> [Instruction; END] {
    let mut steps = [RETURN_ALLOW; END];
    let mut at = 0;
    macro_rules! push {
        ($step:expr) => {{
            steps[at] = $step;
            at += 1;
        }};
    }
    // Offsets count from the instruction after the jump.
    macro_rules! to {
        ($place:expr) => {
            ($place - at - 1) as u8
        };
    }
    push!(KEEP);
    // Calls of other architectures have other numbers. The session's filter refuses these calls.
    push!(load(ARCHITECTURE));
    push!(if_equal(AUDIT_ARCH, 0, to!(AS_IT_IS)));
    push!(load(ADDRESS_HIGH));
    push!(if_equal(IMAGE_HIGH, 0, to!(OUTSIDE)));
    push!(load(ADDRESS_LOW));
    push!(if_at_least(IMAGE_END, to!(OUTSIDE), 0));
    push!(if_at_least(IMAGE_BEGIN, 0, to!(OUTSIDE)));
    push!(if_equal(IMAGE_BEGIN + FORESEE, to!(ASKED), 0));
    push!(if_equal(IMAGE_BEGIN + JUDGE, to!(IN_JUDGEMENT), 0));
    push!(if_equal(IMAGE_BEGIN + PROGRAM, to!(OUTSIDE), 0));
    push!(RETURN_ALLOW);

    assert!(at == ASKED);
    push!(LOAD_KEPT);
    push!(and(ACTION));
    push!(if_equal(RETURN_TRAP, 6, 0));
    push!(if_equal(RETURN_ERRNO, 5, 0));
    push!(if_equal(RETURN_NOTIFY, 4, 0));
    push!(if_equal(RETURN_TRACE, 3, 0));
    push!(if_equal(RETURN_LOG, 2, 0));
    push!(if_equal(ALLOW, 1, 0));
    push!(done(RETURN_TRAP | ENDS as u32));
    push!(done(RETURN_ERRNO | PROCEED as u32));

    assert!(at == IN_JUDGEMENT);
    push!(LOAD_KEPT);
    push!(if_equal(RETURN_ERRNO | PROCEED as u32, 0, 1));
    push!(done(RETURN_ERRNO | NOT_PROCEED as u32));
    push!(if_equal(UNANSWERED, 2, 0));
    push!(and(ACTION));
    push!(if_equal(RETURN_NOTIFY, 0, 1));
    push!(done(RETURN_ERRNO | UNAVAILABLE as u32));
    push!(jump((AS_IT_IS - at - 1) as u32));

    assert!(at == OUTSIDE);
    push!(LOAD_KEPT);
    push!(and(ACTION));
    push!(if_equal(RETURN_ERRNO, to!(LISTED), 0));
    push!(if_equal(RETURN_NOTIFY, to!(NOTIFIES), 0));
    push!(if_equal(RETURN_TRACE, to!(AS_IT_IS), 0));
    push!(if_equal(RETURN_LOG, to!(AS_IT_IS), 0));
    push!(if_equal(ALLOW, to!(AS_IT_IS), 0));
    push!(if_equal(
        RETURN_TRAP,
        if is_second { 0 } else { to!(TRAPS) },
        0
    ));
    push!(done(RETURN_TRAP | JUDGED as u32));

    // The image's marks must differ from the data of the program's own actions.
    assert!(at == TRAPS);
    push!(LOAD_KEPT);
    push!(if_equal(RETURN_TRAP | TRAP_MARK as u32, to!(BY_IMAGE), 0));
    push!(if_equal(RETURN_TRAP | JUDGED as u32, to!(BY_IMAGE), 0));
    push!(if_equal(RETURN_TRAP | STRICT as u32, to!(BY_IMAGE), 0));
    push!(jump((AS_IT_IS - at - 1) as u32));

    assert!(at == NOTIFIES);
    push!(load_constant(UNANSWERED));
    push!(KEEP);
    assert!(at == LISTED);
    push!(load(NUMBER));
    let numbers: [u32; HANDLED] = handled_numbers();
    let mut index = 0;
    while index < HANDLED {
        push!(if_equal(numbers[index], to!(BY_IMAGE), 0));
        index += 1;
    }
    assert!(at == AS_IT_IS);
    push!(LOAD_KEPT);
    push!(DONE_WITH_LOADED);
    assert!(at == BY_IMAGE);
    push!(done(RETURN_TRAP | JUDGED as u32));
    assert!(at == END);
    steps
}

/// The kernel's answer to a filter's request without a listener: in a session a program cannot have
/// a listener.
const UNANSWERED: u32 = RETURN_ERRNO | (-errno::ENOSYS) as u32;
