//! Futures apart from the task that waits for them.
//!
//! A task is as large as the largest thing that it ever waits for, and what it waits for is compiled into it. What it
//! rarely waits for stands in a box of its own ([`rarely`]). What it does for every command would ask the allocator
//! each time: it gets the room that the last one of its size left on this core ([`pooled`]).

#![expect(unsafe_code, reason = "a future is built in memory that is used again")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// Rooms that a thread keeps; more are freed.
const SPARE_MAX: usize = 64;

/// A future in its room, of which nothing is known but what it gives. Dropped, it leaves the room to the next.
pub struct Pooled<'a, T> {
    place: NonNull<dyn Future<Output = T> + 'a>,
}

/// Memory of this layout that holds nothing.
struct Room {
    memory: NonNull<u8>,
    layout: Layout,
}

#[derive(Default)]
struct Spare(Vec<Room>);

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// The future that `make` gives, elsewhere than in the task that waits for it. Its code is compiled for the function
/// that calls this, once, and not for everybody who waits for what that gives.
pub fn pooled<'a, F: Future + 'a>(make: impl FnOnce() -> F) -> Pooled<'a, F::Output> {
    let layout = Layout::new::<F>();
    if layout.size() == 0 {
        let place = NonNull::from(Box::leak(Box::new(make())));
        return Pooled { place };
    }
    let room = Room::take(layout);
    let place = room.memory.cast::<F>();
    // SAFETY: the room has the future's layout and holds nothing. Should `make` panic, the room is given
    // back as it is.
    unsafe { place.write(make()) };
    std::mem::forget(room);
    Pooled { place }
}

/// The future in a box that tells nothing of it but what it gives: neither its code nor its room becomes its
/// caller's, whose own way stays short.
#[cold]
#[inline(never)]
pub fn rarely<'a, T>(
    future: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}

impl<T> Future for Pooled<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the future was written there and is dropped with this value only; nobody else knows the
        // place, and it is never moved from there.
        let future = unsafe { Pin::new_unchecked(self.get_mut().place.as_mut()) };
        future.poll(context)
    }
}

impl<T> Drop for Pooled<'_, T> {
    fn drop(&mut self) {
        // SAFETY: as above.
        let layout = Layout::for_value(unsafe { self.place.as_ref() });
        let room = Room {
            memory: self.place.cast(),
            layout,
        };
        // SAFETY: as above; it is not touched any more.
        unsafe { self.place.drop_in_place() };
        drop(room);
    }
}

impl Room {
    fn take(layout: Layout) -> Room {
        let spare = SPARE.try_with(|spare| {
            let rooms = &mut spare.borrow_mut().0;
            let at = rooms.iter().rposition(|room| room.layout == layout)?;
            Some(rooms.swap_remove(at))
        });
        if let Ok(Some(room)) = spare {
            return room;
        }
        // SAFETY: the caller's layout has a size.
        let memory = NonNull::new(unsafe { alloc(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        Room { memory, layout }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.layout.size() == 0 {
            return;
        }
        let kept = SPARE.try_with(|spare| {
            let Ok(mut spare) = spare.try_borrow_mut() else {
                return false;
            };
            let has_room = spare.0.len() < SPARE_MAX;
            if has_room {
                spare.0.push(Room {
                    memory: self.memory,
                    layout: self.layout,
                });
            }
            has_room
        });
        // An error says that the thread ends.
        if !kept.unwrap_or(false) {
            // SAFETY: it was allocated with this layout, and nobody has it any more.
            unsafe { dealloc(self.memory.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn poll_once<T>(future: &mut Pooled<'_, T>) -> Poll<T> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        Pin::new(future).poll(&mut context)
    }

    #[test]
    fn rooms_are_used_again_and_futures_dropped_once() {
        struct Counts(Rc<Cell<u32>>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Rc::new(Cell::new(0));
        let make = || {
            let counts = Counts(dropped.clone());
            async move {
                std::future::pending::<()>().await;
                drop(counts);
            }
        };
        let mut places = Vec::new();
        for round in 1..=3 {
            let mut future = pooled(make);
            assert!(poll_once(&mut future).is_pending());
            places.push(future.place.cast::<u8>());
            drop(future);
            assert_eq!(dropped.get(), round);
        }
        assert!(places.windows(2).all(|pair| pair[0] == pair[1]));
        let (mut one, mut two) = (pooled(|| async { 1 }), pooled(|| async { 2 }));
        assert_eq!(poll_once(&mut one), Poll::Ready(1));
        assert_eq!(poll_once(&mut two), Poll::Ready(2));
    }

    #[test]
    fn more_rooms_than_are_kept_are_freed() {
        let many: Vec<_> = (0..2 * SPARE_MAX)
            .map(|number| pooled(move || async move { number }))
            .collect();
        drop(many);
        let kept = SPARE.with(|spare| spare.borrow().0.len());
        assert_eq!(kept, SPARE_MAX);
    }
}
