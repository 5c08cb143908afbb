//! Assembler for classic BPF in the form that seccomp accepts.

use libc::{seccomp_data, sock_filter};

/// Step of a filter under construction. The targets of jumps are labels.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Load a 32-bit word of `seccomp_data` at this offset.
    Load(u32),
    /// Go to the label if the loaded word equals the value.
    IfEqual(u32, Label),
    /// Go to the label if the loaded word is at least the value.
    IfAtLeast(u32, Label),
    /// Go to the label if the loaded word has any of these bits.
    IfAnyOf(u32, Label),
    /// Go to the label.
    Goto(Label),
    /// Target of jumps to the label.
    Mark(Label),
    /// End the filter with this action.
    Return(u32),
}

/// Name of a position in a filter.
pub(crate) type Label = u32;

/// Offset of the system call's number in `seccomp_data`.
pub(crate) const NUMBER: u32 = std::mem::offset_of!(seccomp_data, nr) as u32;
/// Offset of the architecture in `seccomp_data`.
pub(crate) const ARCHITECTURE: u32 = std::mem::offset_of!(seccomp_data, arch) as u32;
/// Offset of the low 32 bits of the instruction's address in `seccomp_data`.
pub(crate) const ADDRESS_LOW: u32 = std::mem::offset_of!(seccomp_data, instruction_pointer) as u32;
/// Offset of the high 32 bits of the instruction's address in `seccomp_data`.
pub(crate) const ADDRESS_HIGH: u32 = ADDRESS_LOW + 4;

/// Returns the offset of the low 32 bits of an argument in `seccomp_data`.
pub(crate) const fn argument_low(index: u32) -> u32 {
    std::mem::offset_of!(seccomp_data, args) as u32 + 8 * index
}

/// Returns the offset of the high 32 bits of an argument in `seccomp_data`.
pub(crate) const fn argument_high(index: u32) -> u32 {
    argument_low(index) + 4
}

/// Converts steps to instructions and resolves labels. Conditional jumps reach only 255 steps, so
/// each is replaced by a test that skips over a long jump.
///
/// # Panics
/// Panics on a backward jump and on a jump to a missing label, which are mistakes in a filter.
pub(crate) fn assemble(steps: &[Step]) -> Vec<sock_filter> {
    let mut place = Vec::new();
    let mut at = 0u32;
    for step in steps {
        match step {
            Step::Mark(label) => place.push((*label, at)),
            Step::IfEqual(..) | Step::IfAtLeast(..) | Step::IfAnyOf(..) => at += 2,
            _ => at += 1,
        }
    }
    let target = |label: Label, from: u32| {
        let (_, to) = place
            .iter()
            .find(|(name, _)| *name == label)
            .expect("label exists");
        to.checked_sub(from + 1).expect("jumps go forwards")
    };
    let mut program = Vec::new();
    let jump_if = |program: &mut Vec<_>, test, value, label| {
        let here = program.len() as u32;
        program.push(instruction(test, 0, 1, value));
        program.push(instruction(JUMP, 0, 0, target(label, here + 1)));
    };
    for step in steps {
        let here = program.len() as u32;
        match *step {
            Step::Mark(_) => {}
            Step::Load(offset) => program.push(instruction(LOAD_WORD, 0, 0, offset)),
            Step::IfEqual(value, label) => jump_if(&mut program, JUMP_EQUAL, value, label),
            Step::IfAtLeast(value, label) => jump_if(&mut program, JUMP_AT_LEAST, value, label),
            Step::IfAnyOf(bits, label) => jump_if(&mut program, JUMP_ANY_OF, bits, label),
            Step::Goto(label) => program.push(instruction(JUMP, 0, 0, target(label, here))),
            Step::Return(action) => program.push(instruction(RETURN, 0, 0, action)),
        }
    }
    program
}

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const JUMP_ANY_OF: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}
