//! Instructions of seccomp filters.

use timeloom_abi::{ADDRESS_HIGH_HALF, IMAGE_ADDRESS, IMAGE_LIMIT};

use crate::sys::{nr, syscall};

/// Instruction of a filter: `struct sock_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) then: u8,
    pub(crate) otherwise: u8,
    pub(crate) k: u32,
}

/// Program of a filter, by address and length: `struct sock_fprog`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Program {
    pub(crate) length: u16,
    pub(crate) instructions: *const Instruction,
}

impl Program {
    /// Installs the program as a seccomp filter with these flags. Returns the kernel's result.
    pub(crate) fn install(&self, flags: usize) -> isize {
        let program = core::ptr::from_ref(self) as usize;
        // SAFETY: the kernel reads the program, and checks its pointer.
        unsafe { syscall(nr::SECCOMP, [SET_MODE_FILTER, flags, program, 0, 0, 0]) }
    }
}

/// Loads the 32-bit word of `struct seccomp_data` at this offset into the accumulator.
pub(crate) const fn load(offset: u32) -> Instruction {
    instruction(0x20, offset)
}

/// Loads a constant into the accumulator.
pub(crate) const fn load_constant(k: u32) -> Instruction {
    instruction(0x00, k)
}

/// Masks the accumulator with `k`.
pub(crate) const fn and(k: u32) -> Instruction {
    instruction(0x54, k)
}

/// Jumps over `k` instructions.
pub(crate) const fn jump(k: u32) -> Instruction {
    instruction(JUMP, k)
}

/// Jumps over `then` instructions if the accumulator equals `k`, otherwise over `otherwise`
/// instructions.
pub(crate) const fn if_equal(k: u32, then: u8, otherwise: u8) -> Instruction {
    Instruction {
        code: 0x15,
        then,
        otherwise,
        k,
    }
}

/// Jumps like [`if_equal`], but compares whether the accumulator is at least `k`.
pub(crate) const fn if_at_least(k: u32, then: u8, otherwise: u8) -> Instruction {
    Instruction {
        code: 0x35,
        then,
        otherwise,
        k,
    }
}

/// Ends the filter with this action.
pub(crate) const fn done(action: u32) -> Instruction {
    instruction(RETURN, action)
}

/// Ends the filter with the accumulator as the action.
pub(crate) const DONE_WITH_LOADED: Instruction = instruction(RETURN_LOADED, 0);
/// Copies the accumulator to the index register.
pub(crate) const KEEP: Instruction = instruction(0x07, 0);
/// Instruction that copies the index register to the accumulator.
pub(crate) const LOAD_KEPT: Instruction = instruction(0x87, 0);

const fn instruction(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        then: 0,
        otherwise: 0,
        k,
    }
}

pub(crate) const RETURN_ALLOW: Instruction = done(ALLOW);

/// Opcode of an unconditional jump: `BPF_JMP | BPF_JA`.
pub(crate) const JUMP: u16 = 0x05;
/// Opcode that returns a constant: `BPF_RET | BPF_K`.
pub(crate) const RETURN: u16 = 0x06;
/// Opcode that returns the accumulator: `BPF_RET | BPF_A`.
pub(crate) const RETURN_LOADED: u16 = 0x16;

/// Mask for the bits of an action that select its kind.
pub(crate) const ACTION: u32 = 0xffff_0000;
pub(crate) const ALLOW: u32 = 0x7fff_0000;
pub(crate) const RETURN_LOG: u32 = 0x7ffc_0000;
pub(crate) const RETURN_TRACE: u32 = 0x7ff0_0000;
pub(crate) const RETURN_NOTIFY: u32 = 0x7fc0_0000;
pub(crate) const RETURN_ERRNO: u32 = 0x0005_0000;
pub(crate) const RETURN_TRAP: u32 = 0x0003_0000;

/// Offsets in `struct seccomp_data`, in bytes.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;
pub(crate) const ADDRESS_LOW: u32 = 8;
pub(crate) const ADDRESS_HIGH: u32 = 12;
pub(crate) const FIRST_ARGUMENT: u32 = 16;

/// High 32 bits of every address in the image.
pub(crate) const IMAGE_HIGH: u32 = ADDRESS_HIGH_HALF;
/// Low 32 bits of the image's first address.
pub(crate) const IMAGE_BEGIN: u32 = IMAGE_ADDRESS as u32;
/// Low 32 bits of the first address beyond the image.
pub(crate) const IMAGE_END: u32 = (IMAGE_ADDRESS + IMAGE_LIMIT) as u32;

pub(crate) const SET_MODE_FILTER: usize = 1;
/// SECCOMP_FILTER_FLAG_TSYNC: applies the filter to all threads of the process.
pub(crate) const TSYNC: usize = 1;
/// SECCOMP_FILTER_FLAG_SPEC_ALLOW: without this flag every call would be slower.
pub(crate) const SPEC_ALLOW: usize = 1 << 2;
