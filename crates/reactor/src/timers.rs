//! The timers of one core: a wheel in which setting and cancelling cost the same however many there
//! are, because timeouts are set often and nearly never run out.
//!
//! Six levels of 64 slots; a tick is a millisecond. A timer lies in the level of the highest bit in
//! which its time differs from now, and moves down as its time comes near.

use crate::tasks::Waiter;

const LEVELS: usize = 6;
const SLOT_BITS: usize = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// 1.1 years, the longest that a timer waits: half of the wheel, so that none is a whole turn ahead.
const TICKS_MAX: u64 = 1 << (LEVELS * SLOT_BITS - 1);

const NONE: u32 = u32::MAX;

/// Names a timer until it is cancelled; there is no need of a generation, because its owner cancels
/// it exactly once.
pub(crate) struct TimerId(u32);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    List(u16),
    Fired,
}

struct Timer {
    tick: u64,
    place: Place,
    previous: u32,
    next: u32,
    waiter: Option<Waiter>,
}

/// The wheel.
pub(crate) struct Timers {
    timers: Vec<Timer>,
    free: Vec<u32>,
    heads: [u32; LEVELS * SLOTS],
    /// For each level, which of its slots hold timers.
    occupied: [u64; LEVELS],
    now: u64,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            timers: Vec::new(),
            free: Vec::new(),
            heads: [NONE; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            now: 0,
        }
    }

    /// Sets a timer for this tick; one that is over fires at the next.
    pub(crate) fn set(&mut self, tick: u64, waiter: Waiter) -> TimerId {
        let tick = tick.clamp(self.now + 1, self.now + TICKS_MAX);
        let timer = Timer {
            tick,
            place: Place::Free,
            previous: NONE,
            next: NONE,
            waiter: Some(waiter),
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.timers[at as usize] = timer;
                at
            }
            None => {
                self.timers.push(timer);
                self.timers.len() as u32 - 1
            }
        };
        self.link(at);
        TimerId(at)
    }

    /// True when the timer has run out; else it will wake `waiter`.
    pub(crate) fn poll(&mut self, id: &TimerId, waiter: Waiter) -> bool {
        let timer = &mut self.timers[id.0 as usize];
        if timer.place == Place::Fired {
            return true;
        }
        timer.waiter = Some(waiter);
        false
    }

    /// Takes the timer away. Its waker is returned, to be dropped where the wheel is not borrowed.
    pub(crate) fn cancel(&mut self, id: TimerId) -> Option<Waiter> {
        self.unlink(id.0);
        self.free.push(id.0);
        let timer = &mut self.timers[id.0 as usize];
        timer.place = Place::Free;
        timer.waiter.take()
    }

    /// Moves the time on; the wakers of what has run out are added to `woken`.
    pub(crate) fn advance(&mut self, now: u64, woken: &mut Vec<Waiter>) {
        while let Some((tick, list)) = self.nearest()
            && tick <= now
        {
            self.now = tick;
            let mut at = std::mem::replace(&mut self.heads[list], NONE);
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
            while at != NONE {
                let timer = &mut self.timers[at as usize];
                let next = timer.next;
                if timer.tick <= tick {
                    timer.place = Place::Fired;
                    woken.extend(timer.waiter.take());
                } else {
                    self.link(at);
                }
                at = next;
            }
        }
        self.now = self.now.max(now);
    }

    /// The tick at which the wheel wants to be looked at next: not later than the next timer.
    pub(crate) fn next(&self) -> Option<u64> {
        self.nearest().map(|(tick, _)| tick)
    }

    /// The occupied slot that comes first, and the first tick of it. A lower level is always
    /// earlier, since what lies in a higher one differs from now in a higher bit.
    fn nearest(&self) -> Option<(u64, usize)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let shift = level * SLOT_BITS;
        let now_slot = (self.now >> shift) as usize % SLOTS;
        let ahead = self.occupied[level].rotate_right(now_slot as u32);
        let distance = ahead.trailing_zeros() as u64;
        let slot = (now_slot + distance as usize) % SLOTS;
        let tick = ((self.now >> shift) + distance) << shift;
        Some((tick, level * SLOTS + slot))
    }

    fn link(&mut self, at: u32) {
        let tick = self.timers[at as usize].tick;
        let differs = (self.now ^ tick) | 1;
        let level = ((63 - differs.leading_zeros() as usize) / SLOT_BITS).min(LEVELS - 1);
        let list = level * SLOTS + (tick >> (level * SLOT_BITS)) as usize % SLOTS;
        let head = std::mem::replace(&mut self.heads[list], at);
        if head != NONE {
            self.timers[head as usize].previous = at;
        }
        self.occupied[level] |= 1 << (list % SLOTS);
        let timer = &mut self.timers[at as usize];
        (timer.previous, timer.next) = (NONE, head);
        timer.place = Place::List(list as u16);
    }

    fn unlink(&mut self, at: u32) {
        let timer = &self.timers[at as usize];
        let Place::List(list) = timer.place else {
            return;
        };
        let (previous, next, list) = (timer.previous, timer.next, usize::from(list));
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        if previous != NONE {
            self.timers[previous as usize].next = next;
            return;
        }
        self.heads[list] = next;
        if next == NONE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TimerId, Timers};
    use crate::remote::TaskId;
    use crate::tasks::Waiter;

    /// The wheel against a plain list, on a seeded run of settings, cancellations and leaps.
    #[test]
    fn the_wheel_agrees_with_a_list() {
        for seed in 1..=50u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut random = |below: u64| random.u64(..below);
            let mut wheel = Timers::new();
            let mut list: Vec<(u64, u32, TimerId)> = Vec::new();
            let (mut now, mut number) = (random(1 << 20), 0u32);
            wheel.advance(now, &mut Vec::new());
            for _ in 0..2_000 {
                match random(4) {
                    0 | 1 => {
                        let far = [3, 70, 5_000, 400_000, 1 << 33][random(5) as usize];
                        let tick = now + 1 + random(far);
                        number += 1;
                        let waiter = Waiter::Task(TaskId::new(0, 0, number));
                        list.push((tick, number, wheel.set(tick, waiter)));
                    }
                    2 if !list.is_empty() => {
                        let (_, _, id) = list.swap_remove(random(list.len() as u64) as usize);
                        assert!(wheel.cancel(id).is_some());
                    }
                    _ => {
                        let next = list.iter().map(|(tick, ..)| *tick).min();
                        let wheels = wheel.next();
                        assert_eq!(next.is_some(), wheels.is_some());
                        assert!(wheels <= next && wheels.is_none_or(|tick| tick > now));
                        now += [1, 50, 3_000, 1 << 32][random(4) as usize];
                        let mut woken = Vec::new();
                        wheel.advance(now, &mut woken);
                        let mut fired: Vec<usize> = woken
                            .iter()
                            .map(|waiter| match waiter {
                                Waiter::Task(task) => task.slot(),
                                Waiter::Foreign(_) => 0,
                            })
                            .collect();
                        let (over, left): (Vec<_>, Vec<_>) =
                            list.into_iter().partition(|(tick, ..)| *tick <= now);
                        list = left;
                        let mut expected: Vec<usize> =
                            over.iter().map(|(_, number, _)| *number as usize).collect();
                        fired.sort_unstable();
                        expected.sort_unstable();
                        assert_eq!(fired, expected, "seed {seed}");
                        for (_, _, id) in over {
                            assert!(wheel.cancel(id).is_none());
                        }
                    }
                }
            }
        }
    }
}
