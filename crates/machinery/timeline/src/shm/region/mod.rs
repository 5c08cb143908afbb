//! Regions: the timelines of a host as passed to the guest of a virtual machine, one region per
//! machine, as memory of a PCI device that the guest can only read.
//!
//! The first page is a directory; a page for each timeline follows, of the usual layout of
//! timelines. The total size is a power of two, as PCI requires. Its [counter
//! domain](RegionDirectory) states whose counter the pages use. The guest's own counter has an
//! offset to that one ([`crate::shm::CounterRelation`]), and when the offset changes (the machine was
//! stopped, restored or migrated) the generation changes, which a reader checks after reading its
//! counter.
//!
//! [`RegionWriter`] is the host's side, [`RegionReader`] the guest's, which validates everything: a
//! host is untrusted input for its guest. [`RelationWriter`] is used in the guest by the program
//! that measures.

mod composed;
mod layout;
mod reader;
mod relation_page;
mod writer;

pub use layout::{MOST_TIMELINES, REGION_MAGIC, REGION_VERSION, RegionDirectory, Slot};
pub use reader::{Region, RegionReader};
pub use relation_page::RelationWriter;
pub use writer::{RegionEntry, RegionWriter, SlotWriter};
