//! Reader of a timeline: from its page, or in a virtual machine from the region that the host
//! provides.

use crate::shm::{PageReader, Reading, Refusal, RegionReader};
use timeloom_clock::quality::{Stamp, TimelineId};

/// Reader of a page or of a region. The variant never changes, so the processor predicts the
/// branch.
#[derive(Debug)]
pub(crate) enum Reader {
    Page(PageReader),
    Region(Box<RegionReader>),
}

impl Reader {
    pub(crate) fn timeline(&self) -> TimelineId {
        match self {
            Self::Page(reader) => reader.timeline(),
            Self::Region(reader) => reader.timeline(),
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<Stamp, Refusal> {
        match self {
            Self::Page(reader) => reader.read(),
            Self::Region(reader) => reader.read(),
        }
    }

    #[inline]
    pub(crate) fn read_ns(&self) -> Result<Reading, Refusal> {
        match self {
            Self::Page(reader) => reader.read_ns(),
            Self::Region(reader) => reader.read_ns(),
        }
    }

    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Self::Page(reader) => reader.ticks(),
            Self::Region(reader) => reader.ticks(),
        }
    }

    pub(crate) fn read_event(&self) -> Result<(u64, Reading), Refusal> {
        match self {
            Self::Page(reader) => reader.read_event(),
            Self::Region(reader) => reader.read_event(),
        }
    }
}
