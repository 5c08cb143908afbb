//! What `timeloom-hostile` calls, and by it the fuzzers in `fuzz/`: a clock page of any
//! content, and the sum without which no reader looks at a timeline's words. Not for
//! programs.

use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::Ordering::Relaxed;

use timeloom_page::{ClockPage, MapCopy, PAGE_SIZE, Shown};

use crate::{RegionDirectory, TimelinePage, WORDS};

/// A clock page, as words from its start, when the counter shows what the first word says.
/// A reader gets an instant, whatever is there; and one that does not wait agrees with one
/// that does.
///
/// # Panics
/// When they do not.
pub fn clock_page(input: &[u8]) {
    let (ticks, page) = input.split_at(input.len().min(8));
    let ticks = words_of(ticks).next().unwrap_or_default();
    let page = page_of::<ClockPage<Shown>>(page);
    // Odd, a reader waits for the writer for a second.
    page.sequence.fetch_and(!1, Relaxed);
    let offset = |copy: &MapCopy| copy.realtime_offset_ns.load(Relaxed);
    let (shown, offset_ns) = page.read(|| ticks, offset);
    if let Some(now_ns) = page.try_read(|| ticks, offset) {
        assert_eq!(now_ns, shown.as_ns().wrapping_add(offset_ns));
    }
    let _ = (page.tsc_at(page.read_raw(|| ticks)), page.is_valid());
}

/// What the last word of a timeline's page is to be.
pub fn sum(words: &[u64]) -> u64 {
    crate::layout::sum(words)
}

/// Puts the sums that a region's directory and its timelines' pages should have into these
/// bytes of one, which are a page at least.
pub fn mend_region(bytes: &mut [u8]) {
    let (directory, pages) = bytes.split_at_mut(PAGE_SIZE);
    let sum_of_directory = page_of::<RegionDirectory>(directory).sum_of();
    put(
        directory,
        offset_of!(RegionDirectory, sum),
        sum_of_directory,
    );
    for bytes in pages.chunks_exact_mut(PAGE_SIZE) {
        let page = page_of::<TimelinePage>(bytes);
        put(
            bytes,
            offset_of!(TimelinePage, header_sum),
            page.sum_of_header(),
        );
        // The two copies of the words are the latch's end.
        let copies = offset_of!(TimelinePage, host) - 2 * 8 * WORDS;
        for copy in bytes[copies..][..2 * 8 * WORDS].chunks_exact_mut(8 * WORDS) {
            let words: Vec<u64> = words_of(copy).collect();
            put(copy, 8 * (WORDS - 1), sum(&words[..WORDS - 1]));
        }
    }
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
}

/// The page whose first bytes are these; zeros follow.
fn page_of<T: Page>(bytes: &[u8]) -> Box<T> {
    const { assert!(size_of::<T>() == PAGE_SIZE) };
    // SAFETY: atomics alone, as `Page` says, of which every content is one.
    let mut page = unsafe { Box::new(MaybeUninit::<T>::zeroed()).assume_init() };
    for (at, word) in words_of(bytes).take(PAGE_SIZE / 8).enumerate() {
        // SAFETY: within the page, as `take` says, and aligned as it is; it is ours alone.
        unsafe { (&raw mut *page).cast::<u64>().add(at).write(word) };
    }
    page
}

/// A page of atomics alone: every content is one.
trait Page {}

impl Page for ClockPage<Shown> {}
impl Page for RegionDirectory {}
impl Page for TimelinePage {}
