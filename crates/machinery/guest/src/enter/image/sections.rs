//! Section headers for the image as it is in memory.
//!
//! Debuggers read the vDSO from a process's memory and look for its unwind tables by section.
//! Without section headers they know neither what handlers return to nor the frames of a wait. GDB
//! assumes that section headers are present if they follow the last segment in that segment's last
//! page.

use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endianness, elf};
use timeloom_abi::PAGE_SIZE;

/// Appends the headers of the mapped sections to the image's `bytes`.
pub(super) fn append(linked: &ElfFile64<'_, Endianness>, bytes: &mut Vec<u8>) {
    let endian = linked.endian();
    let table = linked.elf_section_table();
    let mut names = vec![0u8];
    let mut headers = vec![[0u64; 10]];
    let mut places = Vec::new();
    for (index, section) in table.enumerate() {
        let is_mapped = section.sh_flags(endian) & u64::from(elf::SHF_ALLOC) != 0;
        if !is_mapped || section.sh_type(endian) == elf::SHT_RELA {
            continue;
        }
        let name = table.section_name(endian, section).expect("a name");
        places.push((index.0 as u64, headers.len() as u64));
        headers.push([
            names.len() as u64,
            section.sh_type(endian).into(),
            section.sh_flags(endian),
            section.sh_addr(endian),
            section.sh_offset(endian),
            section.sh_size(endian),
            section.sh_link(endian).into(),
            section.sh_info(endian).into(),
            section.sh_addralign(endian),
            section.sh_entsize(endian),
        ]);
        names.extend_from_slice(name);
        names.push(0);
    }
    for header in &mut headers {
        let place = places.iter().find(|(linked, _)| *linked == header[6]);
        header[6] = place.map_or(0, |(_, here)| *here);
    }
    let own_name = names.len() as u64;
    names.extend_from_slice(b".shstrtab\0");
    let (at, size) = (bytes.len() as u64, names.len() as u64);
    headers.push([own_name, elf::SHT_STRTAB.into(), 0, 0, at, size, 0, 0, 1, 0]);
    bytes.extend(names);

    // The headers must fit into the page in which the segment ends.
    let length = headers.len() * HEADER_BYTES;
    let mut end = bytes.len().next_multiple_of(8);
    if end.is_multiple_of(PAGE_SIZE) || end % PAGE_SIZE + length > PAGE_SIZE {
        end = end.next_multiple_of(PAGE_SIZE) + 8;
    }
    bytes.resize(end, 0);
    let segment = FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES;
    let offset = u64::from_le_bytes(bytes[segment + 8..][..8].try_into().expect("eight"));
    for field in [32, 40] {
        put(bytes, segment + field, &(end as u64 - offset).to_le_bytes());
    }
    put(bytes, 0x28, &(end as u64).to_le_bytes());
    put(bytes, 0x3a, &(HEADER_BYTES as u16).to_le_bytes());
    put(bytes, 0x3c, &(headers.len() as u16).to_le_bytes());
    put(bytes, 0x3e, &(headers.len() as u16 - 1).to_le_bytes());
    for header in headers {
        for (index, word) in header.into_iter().enumerate() {
            let word = word.to_le_bytes();
            let is_half = matches!(index, 0 | 1 | 6 | 7);
            bytes.extend_from_slice(if is_half { &word[..4] } else { &word });
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Size of the header of a 64-bit ELF file.
const FILE_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const HEADER_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::super::Image;
    use super::*;

    #[test]
    fn a_debugger_finds_the_unwind_tables_in_memory() {
        let image = Image::new().expect("an image");
        // A fresh allocation provides the alignment that the parser needs.
        let bytes = image.bytes.clone();
        let read = ElfFile64::<Endianness>::parse(&bytes[..]).expect("ELF");
        for name in [".eh_frame", ".eh_frame_hdr", ".text", ".dynsym"] {
            let section = read
                .section_by_name(name)
                .unwrap_or_else(|| panic!("{name}"));
            assert!(section.size() > 0, "{name}");
            let (at, size) = section.file_range().expect("it lies in the file");
            assert!((at + size) as usize <= image.length, "{name}");
        }
        assert!(
            read.dynamic_symbols()
                .any(|it| it.name().is_ok_and(|name| name.ends_with("clock_gettime")))
        );
        let symbols = read.elf_section_table();
        let end = read.elf_header().e_shoff.get(Endianness::Little)
            + (symbols.len() * HEADER_BYTES) as u64;
        let last = &read.elf_program_headers()[1];
        let segment_end =
            last.p_offset.get(Endianness::Little) + last.p_filesz.get(Endianness::Little);
        assert!(end > segment_end && end <= segment_end.next_multiple_of(PAGE_SIZE as u64));
    }
}
