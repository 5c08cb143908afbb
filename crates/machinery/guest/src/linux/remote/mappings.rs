//! Check that memory of a process is writable.
//!
//! A debugger may write everywhere, and so may a writer to /proc/PID/mem. On behalf of a guest, the
//! supervisor writes only to memory to which the guest itself could write.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::os::fd::AsRawFd;

/// Returns true if no mapping in `maps`, a /proc/PID/maps, forbids writing at `address`. (An
/// address without a mapping may be in the range into which the stack can grow.)
pub(super) fn may_be_written(maps: &File, address: u64) -> bool {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        address,
        ..Query::default()
    };
    // SAFETY: the structure has the size stated in it, and requests no name.
    let asked = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if asked == 0 {
        return query.flags & WRITABLE != 0;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT) => true,
        // The kernel is older than Linux 6.11, and lacks this ioctl.
        Some(libc::ENOTTY) => by_text(maps, address),
        _ => false,
    }
}

fn by_text(mut maps: &File, address: u64) -> bool {
    if maps.rewind().is_err() {
        return false;
    }
    let lines = BufReader::new(maps).lines().map_while(Result::ok);
    let mapping = lines.filter_map(|line| parse(&line));
    let mut covering = mapping.filter(|(range, _)| range.contains(&address));
    covering.next().is_none_or(|(_, is_writable)| is_writable)
}

/// Parses `FROM-TO rwxp …`. Returns the range, and true if it is writable.
fn parse(line: &str) -> Option<(std::ops::Range<u64>, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((
        number(from)?..number(to)?,
        rest.as_bytes().get(1) == Some(&b'w'),
    ))
}

/// Query for one mapping of a process: `struct procmap_query` of <linux/fs.h>.
#[derive(Default)]
#[repr(C)]
struct Query {
    size: u64,
    query_flags: u64,
    address: u64,
    start: u64,
    end: u64,
    flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_and_build_id_sizes: [u32; 2],
    name: u64,
    build_id: u64,
}

const _: () = assert!(size_of::<Query>() == 104);

/// PROCMAP_QUERY: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611;
const WRITABLE: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    static CONSTANT: u64 = 7;

    #[test]
    fn both_ways_tell_the_same() {
        let mut variable = 8u64;
        let maps = File::open("/proc/self/maps").expect("our own");
        for (address, expected) in [
            (&raw const CONSTANT as u64, false),
            (&raw mut variable as u64, true),
            (8, true),
        ] {
            assert_eq!(may_be_written(&maps, address), expected, "{address:#x}");
            assert_eq!(by_text(&maps, address), expected, "{address:#x}");
        }
    }

    #[test]
    fn a_line_tells_range_and_rights() {
        assert_eq!(parse("10-2f rw-p 0 0:0 0"), Some((0x10..0x2f, true)));
        assert_eq!(
            parse("10-2f r-xp 0 0:0 0 /bin/x"),
            Some((0x10..0x2f, false))
        );
        assert_eq!(parse("x"), None);
    }
}
