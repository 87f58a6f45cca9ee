//! Ids for AUTO_INCREMENT columns of tables on many groups.
//!
//! Each core takes ids in blocks from the farm, so an id is unique and an INSERT seldom waits. Ids of
//! one core grow; those of several cores and routers interleave, and what is left of a block when the
//! router ends is never used.

use std::cell::RefCell;
use std::ops::Range;

use rustc_hash::FxHashMap;

/// Taken at once for a table; more where a statement has more rows.
pub const BLOCK: u64 = 1000;

/// A core that has no ids of a table passes so many ids that clients chose, before it asks again
/// whether anybody has.
pub const PASSED_MAX: u64 = 1000;

/// The ids that a core may still give out, by `database.table`.
#[derive(Default)]
pub struct Blocks(RefCell<FxHashMap<Box<str>, Block>>);

pub enum Block {
    Ids(Range<u64>),
    /// Nobody had asked for ids of the table. So many chosen ones may pass without asking.
    Unused(u64),
}

impl Blocks {
    /// Takes so many ids that follow each other, if they are here; gives the first.
    pub fn take(&self, name: &str, count: u64) -> Option<u64> {
        let mut blocks = self.0.borrow_mut();
        let Block::Ids(block) = blocks.get_mut(name)? else {
            return None;
        };
        let first = block.start;
        (block.end - first >= count).then(|| {
            block.start += count;
            first
        })
    }

    pub fn put(&self, name: &str, block: Block) {
        self.0.borrow_mut().insert(name.into(), block);
    }

    /// Takes note of an id that a client chose. False when the farm must hear of it, too, since it
    /// is above what this core knows.
    pub fn pass(&self, name: &str, id: u64) -> bool {
        let mut blocks = self.0.borrow_mut();
        match blocks.get_mut(name) {
            Some(Block::Ids(block)) if id < block.end => {
                block.start = block.start.max(id + 1);
                true
            }
            Some(Block::Unused(left)) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}
