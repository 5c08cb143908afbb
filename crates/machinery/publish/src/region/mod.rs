//! A region: the timelines of a host as the guest of a virtual machine is given them, one
//! region to a machine, as memory of a PCI device that the guest can only read.
//!
//! The first page is a directory; a page for each timeline follows, of the layout that
//! timelines have everywhere. The whole is as long as a power of two, as PCI wants it.
//! Its [counter domain](RegionDirectory) says whose counter the pages are by. The guest's
//! own counter is shifted against that one ([`crate::Relation`]), and when it is moved
//! again (the machine stopped, was restored or migrated) the generation changes, which a
//! reader looks at after its counter.
//!
//! [`RegionWriter`] is the host's side, [`RegionReader`] the guest's, which takes nothing
//! on trust: a host is untrusted input for its guest. [`RelationWriter`] is kept in the
//! guest by whoever measures.

mod composed;
mod layout;
mod reader;
mod relation_page;
mod writer;

pub use layout::{MOST_TIMELINES, REGION_MAGIC, REGION_VERSION, RegionDirectory, Slot};
pub use reader::{Region, RegionReader};
pub use relation_page::RelationWriter;
pub use writer::{RegionEntry, RegionWriter, SlotWriter};
