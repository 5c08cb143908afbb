//! Reads of files whose names come from untrusted input. A file that is not regular could block its
//! reader, or never end.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Returns the content of a regular file of at most `most_bytes`.
///
/// # Errors
/// Fails as the kernel does, if the file is not regular, or if it is longer.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_plain(path)?;
    at_most(file, most_bytes)
}

/// Opens a regular file and returns its metadata.
pub(crate) fn open_plain(path: &Path) -> io::Result<(File, Metadata)> {
    // Without NONBLOCK, opening a pipe without a writer would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    // The open file is checked: by now its name may refer to another file.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, metadata))
}

/// Returns the text of a regular file of at most `most_bytes`.
///
/// # Errors
/// Fails as [`read`] does, or if the content is not UTF-8.
pub fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    text(read(path, most_bytes)?)
}

/// Returns the text of a regular file of at most `most_bytes`. Also returns true if the opened file
/// is below the directory `top`, whatever path led to it.
///
/// # Errors
/// Fails as [`read_text`] does.
pub fn read_text_below(top: &Path, path: &Path, most_bytes: u64) -> io::Result<(String, bool)> {
    let (file, _) = open_plain(path)?;
    // The open file is checked, since a link in the path may have changed meanwhile.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let is_below = match (real, top.canonicalize()) {
        (Ok(real), Ok(top)) => real.starts_with(top),
        _ => false,
    };
    Ok((text(at_most(file, most_bytes)?)?, is_below))
}

/// Returns the text of a file of any kind, of at most `most_bytes`. For files that the user names,
/// such as a pipe with another program's output.
///
/// # Errors
/// Fails as the kernel does, if the file is longer, or if it is not UTF-8.
pub fn read_any_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    text(at_most(File::open(path)?, most_bytes)?)
}

pub(crate) fn at_most(file: File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let message = format!("it has more than {most_bytes} bytes");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn only_a_plain_file_of_the_length_is_read_and_nothing_keeps_us_waiting() {
        let place = tempfile::tempdir().expect("there is room");
        let file = place.path().join("file");
        std::fs::write(&file, "words").expect("there is room");
        assert_eq!(read_text(&file, 5).expect("it is one"), "words");
        assert_eq!(read_any_text(&file, 5).expect("it is one"), "words");
        let long = read(&file, 4).expect_err("it is longer").to_string();
        assert_eq!(long, "it has more than 4 bytes");

        let below = |path: &Path| read_text_below(place.path(), path, 5).expect("it is one").1;
        assert!(below(&file) && below(&place.path().join("../").join(place.path()).join("file")));
        let outside = tempfile::NamedTempFile::new().expect("there is room");
        let leading = place.path().join("leading");
        std::os::unix::fs::symlink(outside.path(), &leading).expect("there is room");
        assert!(!below(outside.path()) && !below(&leading));

        let pipe = place.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("there is room");
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).expect("there is room");
        for other in [&pipe, &link, &place.path().to_owned()] {
            let refused = read(other, 5).expect_err("it is none").to_string();
            assert_eq!(refused, "it is not a regular file", "{}", other.display());
        }
        let endless = read_any_text(&link, 5).expect_err("it never ends");
        assert_eq!(endless.to_string(), "it has more than 5 bytes");
    }
}
