//! Entry points for `timeloom-hostile` and for the fuzzers in `fuzz/`, which use that crate. They
//! read clock pages of any content and compute the sum that readers require of a timeline's words.
//! Not for other callers.

use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::Ordering::Relaxed;

use timeloom_abi::{ClockPage, MapCopy, PAGE_SIZE, PageTime};

use crate::shm::{RegionDirectory, TimelinePage, WORDS};

/// Reads a clock page that has the content of `input` from its second word on; the first word is
/// the value of the counter. Checks that a reader gets an instant for any content, and that a
/// reader that does not wait for the writer agrees with one that does.
///
/// # Panics
/// Panics if the two readers disagree.
pub fn clock_page(input: &[u8]) {
    let (ticks, page) = input.split_at(input.len().min(8));
    let ticks = words_of(ticks).next().unwrap_or_default();
    let page = page_of::<ClockPage<PageTime>>(page);
    // If the sequence is odd, a reader waits up to a second for the writer.
    page.sequence.fetch_and(!1, Relaxed);
    let offset = |copy: &MapCopy| copy.realtime_offset_ns.load(Relaxed);
    let (shown, offset_ns) = page.read(|| ticks, offset);
    if let Some(now_ns) = page.try_read(|| ticks, offset) {
        assert_eq!(now_ns, shown.as_ns().wrapping_add(offset_ns));
    }
    let _ = (page.tsc_at(page.read_raw(|| ticks)), page.is_valid());
}

/// Returns the correct value of the last word of a timeline's page.
pub fn sum(words: &[u64]) -> u64 {
    crate::shm::layout::sum(words)
}

/// Replaces the sums in the bytes of a region, for the directory and for each timeline's page, by
/// the correct ones. `bytes` must have at least one page.
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
        // The two copies of the words are at the end of the latch.
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

/// Returns a page that begins with `bytes`, followed by zeros.
fn page_of<T: Page>(bytes: &[u8]) -> Box<T> {
    const { assert!(size_of::<T>() == PAGE_SIZE) };
    // SAFETY: the page consists of atomics, as `Page` requires, for which every content is valid.
    let mut page = unsafe { Box::new(MaybeUninit::<T>::zeroed()).assume_init() };
    for (at, word) in words_of(bytes).take(PAGE_SIZE / 8).enumerate() {
        // SAFETY: the word is within the page, as `take` ensures, and the page is aligned for
        // `u64`. No other code has a reference to the page yet.
        unsafe { (&raw mut *page).cast::<u64>().add(at).write(word) };
    }
    page
}

/// Page that consists of atomics, for which every content is valid.
trait Page {}

impl Page for ClockPage<PageTime> {}
impl Page for RegionDirectory {}
impl Page for TimelinePage {}
