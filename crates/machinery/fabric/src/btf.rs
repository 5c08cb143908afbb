//! Structures in the kernel's own description of its types (BTF).
//!
//! Linux, Documentation/bpf/btf: a header, one entry for each type, numbered from 1, and the names.

/// A structure of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Structure {
    /// Number of the structure's type.
    pub(crate) id: u32,
    /// Size in bytes.
    pub(crate) size: usize,
    members: Vec<Member>,
}

#[derive(Debug, PartialEq, Eq)]
struct Member {
    name: String,
    offset: usize,
}

impl Structure {
    /// Finds the first structure of this name in the contents of `/sys/kernel/btf/vmlinux`.
    /// Returns `None` if there is none, or if the contents are not BTF.
    pub(crate) fn find(btf: &[u8], name: &str) -> Option<Self> {
        let header = Words(btf);
        if header.at(0)? & 0xffff != MAGIC {
            return None;
        }
        let begin = header.at(4)? as usize;
        let section = |offset| {
            let from = begin.checked_add(header.at(offset)? as usize)?;
            btf.get(from..from.checked_add(header.at(offset + 4)? as usize)?)
        };
        let (types, names) = (section(8)?, section(16)?);
        let types = Words(types);
        let mut at = 0;
        let mut id = 1;
        loop {
            let [named, info, size] = [types.at(at)?, types.at(at + 4)?, types.at(at + 8)?];
            let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
            at += 12;
            if kind == STRUCT && text(names, named)? == name {
                let member = |index| {
                    let at = at + index * 12;
                    // With the flag the upper byte is the width of a bit field.
                    let bits = match info >> 31 {
                        0 => types.at(at + 8)?,
                        _ => types.at(at + 8)? & 0x00ff_ffff,
                    };
                    let name = text(names, types.at(at)?)?.to_owned();
                    let offset = bits as usize / 8;
                    Some(Member { name, offset })
                };
                let members: Option<_> = (0..count).map(member).collect();
                return Some(Self {
                    id,
                    size: size as usize,
                    members: members?,
                });
            }
            at += following(kind, count)?;
            id += 1;
        }
    }

    /// Returns a member's number and its offset in bytes.
    pub(crate) fn member(&self, name: &str) -> Option<(u32, usize)> {
        let mut all = self.members.iter().zip(0..);
        let (member, number) = all.find(|(member, _)| member.name == name)?;
        Some((number, member.offset))
    }
}

/// Returns the size of what follows an entry of this kind with so many elements.
fn following(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Pointer, forward declaration, typedef, qualifiers, function, float, tag of a type.
        2 | 7..=12 | 16 | 18 => 0,
        // Integer, variable, tag of a declaration.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, section, enumeration of 64 bits.
        STRUCT | 5 | 15 | 19 => 12 * count,
        // Enumeration, prototype.
        6 | 13 => 8 * count,
        _ => return None,
    })
}

/// Bytes that are read as numbers of 32 bits.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn at(&self, offset: usize) -> Option<u32> {
        let bytes = self.0.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }
}

fn text(names: &[u8], offset: u32) -> Option<&str> {
    let rest = names.get(offset as usize..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    str::from_utf8(&rest[..end]).ok()
}

const MAGIC: u32 = 0xeb9f;
const STRUCT: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let names = b"\0int\0pair\0first\0second\0";
        let mut types = Vec::new();
        let mut word = |words: &[u32]| types.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
        word(&[1, 1 << 24, 4, 32]);
        word(&[0, 3 << 24, 0, 1, 1, 4]);
        word(&[5, 4 << 24 | 2, 8, 10, 1, 0, 16, 1, 32]);
        let lengths = [
            0,
            types.len() as u32,
            types.len() as u32,
            names.len() as u32,
        ];
        let header = [MAGIC | 1 << 16, 24].into_iter().chain(lengths);
        let mut all: Vec<u8> = header.flat_map(u32::to_ne_bytes).collect();
        all.extend(types);
        all.extend(names);
        all
    }

    #[test]
    fn a_structure_is_found_with_its_members() {
        let pair = Structure::find(&sample(), "pair").expect("it is there");
        assert_eq!((pair.id, pair.size), (3, 8));
        assert_eq!(pair.member("second"), Some((1, 4)));
        assert_eq!(pair.member("third"), None);
        assert_eq!(Structure::find(&sample(), "int"), None);
    }

    #[test]
    fn cut_or_altered_bytes_give_no_structure_and_no_panic() {
        let whole = sample();
        for length in 0..whole.len() {
            let _ = Structure::find(&whole[..length], "pair");
            for byte in [0, 0x7f, 0xff] {
                let mut altered = whole.clone();
                altered[length] = byte;
                let _ = Structure::find(&altered, "pair");
            }
        }
        assert_eq!(Structure::find(&[], "pair"), None);
    }
}
