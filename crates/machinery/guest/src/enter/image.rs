//! The image (Timeloom's code in each guest process), linked by the build script. It is relocated
//! here and stored in a memfd.

use std::fs::File;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};
use timeloom_abi::calls::verdict;
use timeloom_abi::{IMAGE_ADDRESS, IMAGE_LIMIT, PAGE_SIZE, VDSO_ADDRESS};

use crate::arch;
use crate::error::GuestError;
use crate::linux::memory::sealed_memfd;

/// Image as it is mapped into guests: the vDSO at [`VDSO_ADDRESS`], the rest at [`IMAGE_ADDRESS`].
pub(crate) struct Image {
    /// Sealed memfd. It is mapped shared, so that all guests together hold one copy.
    pub(crate) file: File,
    bytes: Vec<u8>,
    /// Size of the whole file in bytes, including the vDSO; a multiple of the page size.
    pub(crate) length: usize,
    /// Address of the handler of SIGSYS.
    pub(crate) handler: u64,
    /// Address of the handler of a signal that the image manages for the program: SIGSEGV, if the
    /// time-stamp counter is emulated.
    pub(crate) kept: u64,
    /// Return address of the handler (`sa_restorer`).
    pub(crate) restorer: u64,
    /// Address of a system call instruction whose calls the filter lets pass.
    pub(crate) syscall: u64,
    /// Address of the code by which a thread becomes a tracee before its exec.
    pub(crate) be_traced: u64,
    /// Addresses of two zero-terminated arguments for gdb. The first is an option, the second its
    /// value.
    pub(crate) gdb_arguments: [u64; 2],
    /// Names of functions that a vDSO exports, with the addresses of their implementations in the
    /// image.
    functions: Vec<(String, u64)>,
    /// Offset in the file of the flag that unwinders can find the image's tables; `None` on
    /// architectures that do not read it.
    is_listed: Option<usize>,
    /// Addresses of the waiting instruction: a thread whose instruction pointer is in this range is
    /// waiting.
    pub(crate) wait: std::ops::RangeInclusive<u64>,
}

/// Storage with the alignment that is needed to read ELF structures in place.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static LINKED: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/image.so")));

impl Image {
    /// Creates the image: relocates the linked file to its address and stores it in a memfd.
    ///
    /// # Panics
    /// Panics if the file has a shape that the linker script does not produce. That would be a
    /// fault of the build, not of the machine.
    pub(crate) fn new() -> Result<Self, GuestError> {
        let elf = ElfFile64::<Endianness>::parse(&LINKED.0).expect("the linked image is ELF");
        let endian = elf.endian();
        let loads = elf.elf_program_headers().iter();
        let loads: Vec<_> = loads
            .filter(|header| header.p_type(endian) == elf::PT_LOAD)
            .collect();
        // Address for which the linker placed the beginning of the file.
        let base = loads.first().expect("it has a segment").p_vaddr(endian);
        let starts = loads.iter().map(|load| load.p_vaddr(endian) - base);
        assert!(
            starts.eq([0, IMAGE_ADDRESS - VDSO_ADDRESS]),
            "the vDSO, and the image at its address"
        );
        let mut filled = 0;
        for load in loads {
            let offset = load.p_offset(endian);
            assert_eq!(
                base + offset,
                load.p_vaddr(endian),
                "as it lies in the file"
            );
            assert_eq!(load.p_filesz(endian), load.p_memsz(endian), "all is there");
            filled = filled.max((offset + load.p_filesz(endian)) as usize);
        }
        let mut bytes = LINKED.0[..filled].to_vec();
        sections::append(&elf, &mut bytes);
        let length = bytes.len().next_multiple_of(PAGE_SIZE);
        assert!(
            length as u64 <= IMAGE_ADDRESS - VDSO_ADDRESS + IMAGE_LIMIT,
            "the image outgrew its address range"
        );
        bytes.resize(length, 0);
        relocate(&elf, base, &mut bytes);

        let symbol = |name: &str| {
            let address = elf
                .symbols()
                .find(|symbol| symbol.name() == Ok(name))
                .map(|symbol| VDSO_ADDRESS + (symbol.address() - base))
                .unwrap_or_else(|| panic!("the image lacks {name}"));
            assert!(address >= IMAGE_ADDRESS, "{name} lies in the vDSO");
            address
        };
        assert_eq!(
            symbol("timeloom_foresee"),
            IMAGE_ADDRESS + u64::from(verdict::SITES),
            "filters know the sites by their addresses"
        );
        let functions = elf
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|exported| {
                let name = exported.name().ok()?;
                let prefixes = ["__vdso_", "__kernel_"];
                let plain = prefixes.iter().find_map(|it| name.strip_prefix(it));
                let function = format!("timeloom_vdso_{}", plain.unwrap_or(name));
                // The linker also lists the names of symbol versions.
                let is_function = exported.kind() == object::SymbolKind::Text;
                is_function.then(|| (name.to_owned(), symbol(&function)))
            })
            .collect();
        let note = elf
            .symbols()
            .find(|symbol| symbol.name() == Ok("TIMELOOM_IS_LISTED"));
        Ok(Self {
            functions,
            is_listed: note.map(|symbol| (symbol.address() - base) as usize),
            file: sealed_memfd(c"timeloom-image", &bytes)?,
            bytes,
            length,
            handler: symbol("timeloom_handler"),
            kept: symbol("timeloom_intercepted"),
            restorer: symbol("timeloom_restorer"),
            syscall: symbol("timeloom_syscall"),
            be_traced: symbol("timeloom_be_traced"),
            gdb_arguments: [
                symbol("timeloom_gdb_option"),
                symbol("timeloom_gdb_command"),
            ],
            wait: symbol("timeloom_wait_begin")..=symbol("timeloom_wait_end"),
        })
    }
}

impl Image {
    /// Returns a copy of the file for attached programs, under another name by which the processes
    /// that map it are found. These programs were not given the vDSO, so their unwinders do not
    /// know the image.
    pub(crate) fn copy(&self, name: &std::ffi::CStr) -> Result<File, GuestError> {
        let mut bytes = self.bytes.clone();
        if let Some(at) = self.is_listed {
            bytes[at..at + size_of::<u32>()].fill(0);
        }
        sealed_memfd(name, &bytes)
    }

    /// Returns the address, in the image, of a vDSO function by its exported name. (The address is
    /// not in the vDSO, which the program may unmap.)
    pub(crate) fn function(&self, name: &str) -> Option<u64> {
        self.functions
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, address)| *address)
    }
}

/// Applies the relocations that the linker left for a loader: adds the load address minus `base` to
/// each word. Only relative relocations occur, since the image needs no external symbol.
fn relocate(elf: &ElfFile64<'_, Endianness>, base: u64, bytes: &mut [u8]) {
    let Some(relocations) = elf.dynamic_relocations() else {
        return;
    };
    for (offset, relocation) in relocations {
        let kind = relocation.flags();
        let relative = object::RelocationFlags::Elf {
            r_type: arch::RELATIVE,
        };
        assert_eq!(kind, relative, "the image refers to something outside");
        let value = (VDSO_ADDRESS - base).wrapping_add_signed(relocation.addend());
        bytes[(offset - base) as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }
}

mod sections;
#[cfg(test)]
mod stack_tests;
