//! Untrusted input of timelines: their socket and pages, pages of other programs, and time servers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, memfd_create};
use timeloom_clock::quality::TimelineId;
use timeloom_timeline::protocol::{
    DaemonMessage, FedSync, MOST_FEED_BYTES, Request, RequestKind, TimelineName, decode, encode,
};
use timeloom_timeline::shm::foreign::chrony_sock::SockSample;
use timeloom_timeline::shm::foreign::ntp_shm::ShmSample;
use timeloom_timeline::shm::fuzzing::sum;
use timeloom_timeline::shm::{
    Domain, PAGE_SIZE, PageCounter, PageReader, PageSegment, PageWriter, WORDS,
};

use crate::split;

/// Tests a packet at the socket of the daemon, of a program, or for the Syncs of a PTP slave. A
/// decoded packet must not change by encoding and decoding.
pub(crate) fn socket(packet: &[u8]) {
    if let Ok(request) = decode::<Request>(packet) {
        let again: Request = decode(&encode(&request)).expect("what was written is read");
        assert_eq!(again, request);
        if let RequestKind::Bind(need) = &request.ask {
            let _ = need.requirement();
        }
    }
    if let Ok(message) = decode::<DaemonMessage>(packet) {
        let again: DaemonMessage = decode(&encode(&message)).expect("what was written is read");
        assert_eq!(again, message);
    }
    if let Ok(sync) = FedSync::decode(packet) {
        let written = sync.encode();
        assert!(written.len() <= MOST_FEED_BYTES, "{} bytes", written.len());
        let again = FedSync::decode(&written).expect("what was written is read");
        assert_eq!(again, sync);
    }
    if let Ok(name) = core::str::from_utf8(packet).unwrap_or_default().parse() {
        let name: TimelineName = name;
        assert!(!name.as_str().contains('/') && !name.as_str().starts_with('.'));
    }
}

/// Tests the page of a timeline whose writer is untrusted. Whatever the page contains, a reader
/// must get a reading or an error within a bounded time.
///
/// Input: 8 bytes for the counter, then words: those of the page from its start, and those of its
/// line.
pub(crate) fn timeline_page(input: &[u8]) {
    let (ticks, words) = split::<8>(input);
    let ticks = u64::from_le_bytes(ticks);
    let mut page = vec![0; PAGE_SIZE];
    let length = words.len().min(PAGE_SIZE);
    page[..length].copy_from_slice(&words[..length]);
    PAGE.write_all_at(&page, 0).expect("memory can be written");
    let domain = Domain::Host {
        session: 1,
        host: 0,
    };
    let _ = PageReader::open_as(&*PAGE, domain);

    // The words of an arbitrary line, with a valid checksum.
    let mut line = [0; WORDS];
    for (word, bytes) in line.iter_mut().zip(words.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight"));
    }
    line[WORDS - 1] = sum(&line[..WORDS - 1]);
    WRITER.publish_words(line);
    let read = PageReader::open(WRITER.fd()).and_then(|reader| reader.read_with(|| ticks));
    match PageSegment::from_words(&line) {
        Ok(segment) => {
            assert_eq!(PageSegment::from_words(&segment.to_words()), Ok(segment));
            read.expect("words that are sound are read");
        }
        Err(refusal) => assert_eq!(read, Err(refusal)),
    }
}

/// Writer of a timeline's page on this machine.
static WRITER: LazyLock<PageWriter> = LazyLock::new(|| {
    let counter = PageCounter::Monotonic;
    PageWriter::in_memory(TimelineId(1), counter, None).expect("memory")
});

/// File with one page of memory.
static PAGE: LazyLock<File> = LazyLock::new(|| {
    let file = memfd_create("timeloom-hostile", MemfdFlags::CLOEXEC).expect("memory");
    let file = File::from(file);
    file.set_len(PAGE_SIZE as u64).expect("memory");
    file
});

/// Tests a clock page as a process reads it that has mapped the page.
///
/// Input: 8 bytes for the counter, then the words of one map and of the page.
pub(crate) fn clock_page(input: &[u8]) {
    timeloom_timeline::shm::fuzzing::clock_page(input);
}

/// Tests a page or sample in the format of another program.
///
/// Input: 8 bytes for the counter, 8 for CLOCK_MONOTONIC, then the page.
pub(crate) fn foreign_page(input: &[u8]) {
    let (ticks, rest) = split::<8>(input);
    let (now_ns, page) = split::<8>(rest);
    let (ticks, now_ns) = (u64::from_le_bytes(ticks), i64::from_le_bytes(now_ns));
    timeloom_timelined::fuzzing::foreign_page(page, ticks, now_ns);
    if let Ok(sample) = SockSample::parse(page) {
        let again = SockSample::parse(&sample.emit());
        // The comparison uses the encoded bytes, because an offset may be NaN.
        assert_eq!(again.map(|sample| sample.emit()), Ok(sample.emit()));
    }
    if let Ok(sample) = ShmSample::parse(page) {
        assert_eq!(ShmSample::parse(&sample.emit()), Ok(sample));
    }
}

/// Tests the response of a time server.
pub(crate) fn time_server(packet: &[u8]) {
    timeloom_timelined::fuzzing::time_server(packet);
}

/// Tests a datagram between programs that share a timeline, and a pattern that selects receivers.
///
/// Input: one byte for the length of the pattern, the pattern, and the datagram.
pub(crate) fn message(input: &[u8]) {
    let ([length], rest) = split::<1>(input);
    let (pattern, datagram) = rest.split_at(rest.len().min(length.into()));
    let pattern = core::str::from_utf8(pattern).unwrap_or_default();
    timeloom_timeline::messages::fuzzing::message(pattern, datagram);
}
