//! An allocator that counts: what a piece of work asks of the allocator becomes a number that a test can bound.
//!
//! Invariant: it gives what the system's allocator gives. For tests and measurements only, since all threads count in
//! one place.
//!
//! Must not know: what is counted, and how much is too much.

#![expect(unsafe_code, reason = "the trait of allocators is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The system's allocator, which counts how often it is asked. A program makes it its global allocator.
pub struct Counting;

static COUNTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

impl Counting {
    /// How often it was asked for memory, or for more of it, by threads that are not left out.
    pub fn counted() -> u64 {
        COUNTED.load(Relaxed)
    }

    /// What this thread asks for is not counted from now on.
    pub fn leave_out() {
        LEFT_OUT.set(true);
    }
}

fn count() {
    // A thread that is losing its locals counts.
    if !LEFT_OUT.try_with(Cell::get).unwrap_or(false) {
        COUNTED.fetch_add(1, Relaxed);
    }
}

// SAFETY: every call is the system's allocator's, with the caller's own arguments; counting allocates nothing and
// cannot panic.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the conditions are the trait's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the trait's conditions, which are the same there.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as above.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory came from there.
        unsafe { System.dealloc(memory, layout) }
    }
}
