//! What `timeloom-hostile` calls, and by it the fuzzers in `fuzz/`: a clock page of any
//! content, and the sum without which no reader looks at a timeline's words. Not for
//! programs.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use timeloom_page::{ClockPage, MapCopy, PAGE_SIZE, Shown};

use crate::RegionDirectory;

/// A clock page, as words from its start, when the counter shows what the first word says.
/// A reader gets an instant, whatever is there; and one that does not wait agrees with one
/// that does.
///
/// # Panics
/// When they do not.
pub fn clock_page(input: &[u8]) {
    let mut words = input
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
    let ticks = words.next().unwrap_or_default();
    // SAFETY: atomics alone, of which every content is one.
    let mut page = unsafe { Box::new(MaybeUninit::<ClockPage<Shown>>::zeroed()).assume_init() };
    for (at, word) in words.take(PAGE_SIZE / 8).enumerate() {
        // SAFETY: within the page, as `take` says, and aligned as it is; it is ours alone.
        unsafe { (&raw mut *page).cast::<u64>().add(at).write(word) };
    }
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

/// Puts the sum that a region's directory should have into these bytes of one, which are
/// a page at least.
pub fn mend_region(bytes: &mut [u8]) {
    // SAFETY: atomics alone, of which every content is one.
    let mut page = unsafe { Box::new(MaybeUninit::<RegionDirectory>::zeroed()).assume_init() };
    for (at, word) in bytes[..PAGE_SIZE].chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().expect("eight"));
        // SAFETY: within the page, and aligned as it is; it is ours alone.
        unsafe { (&raw mut *page).cast::<u64>().add(at).write(word) };
    }
    bytes[56..64].copy_from_slice(&page.sum_of().to_le_bytes());
}
