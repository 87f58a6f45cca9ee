//! The numbers of one digest.

use crate::histogram::Histogram;

/// The errors of a digest are told apart by their number as long as there are no more numbers.
pub const ERRORS_MAX: usize = 8;

/// One statement that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The number of the error that the client was told.
    pub error: Option<u16>,
    /// To the client.
    pub rows_sent: u64,
    pub rows_changed: u64,
    /// To the client.
    pub bytes: u64,
    /// From servers to the router: more than the client is sent where groups' rows are put together.
    pub rows_read: u64,
    /// Of these rows.
    pub bytes_read: u64,
    /// Its end, in milliseconds since 1970.
    pub at_ms: u64,
    /// Until it was sent to a server: for rules, a connection, a replica, a primary.
    pub waiting_us: u64,
    /// From then on: the server's work, and the way of its reply to the client.
    pub server_us: u64,
}

impl Call {
    /// What the client has waited.
    pub fn total_us(&self) -> u64 {
        self.waiting_us.saturating_add(self.server_us)
    }
}

/// All statements of one digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: u64,
    /// By number, the first [`ERRORS_MAX`] numbers that came.
    pub errors: Vec<(u16, u64)>,
    /// Errors of other numbers.
    pub other_errors: u64,
    pub rows_sent: u64,
    pub rows_changed: u64,
    pub bytes: u64,
    /// From servers to the router.
    pub rows_read: u64,
    pub bytes_read: u64,
    /// When the first one ended, and the last one, in milliseconds since 1970.
    pub first_ms: u64,
    pub last_ms: u64,
    pub total_us: u64,
    pub waiting_us: u64,
    pub most_us: u64,
    /// The time of the whole statement, that of its waiting, that of its server.
    pub times: Histogram,
    pub waits: Histogram,
    pub served: Histogram,
}

impl Counts {
    /// Counts a statement.
    pub fn add(&mut self, call: &Call) {
        let total_us = call.total_us();
        if self.calls == 0 {
            self.first_ms = call.at_ms;
        }
        self.calls += 1;
        self.rows_sent += call.rows_sent;
        self.rows_changed += call.rows_changed;
        self.bytes += call.bytes;
        self.rows_read += call.rows_read;
        self.bytes_read += call.bytes_read;
        self.last_ms = self.last_ms.max(call.at_ms);
        self.total_us += total_us;
        self.waiting_us += call.waiting_us;
        self.most_us = self.most_us.max(total_us);
        self.times.add(total_us);
        self.waits.add(call.waiting_us);
        self.served.add(call.server_us);
        if let Some(number) = call.error {
            self.add_errors(number, 1);
        }
    }

    #[cold]
    fn add_errors(&mut self, number: u16, count: u64) {
        let room = self.errors.len() < ERRORS_MAX;
        match self.errors.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => *known += count,
            None if room => self.errors.push((number, count)),
            None => self.other_errors += count,
        }
    }

    /// Adds what was counted elsewhere of the same.
    pub fn join(&mut self, other: &Counts) {
        if other.calls == 0 {
            return;
        }
        if self.calls == 0 {
            *self = other.clone();
            return;
        }
        self.calls += other.calls;
        for &(number, count) in &other.errors {
            self.add_errors(number, count);
        }
        self.other_errors += other.other_errors;
        self.rows_sent += other.rows_sent;
        self.rows_changed += other.rows_changed;
        self.bytes += other.bytes;
        self.rows_read += other.rows_read;
        self.bytes_read += other.bytes_read;
        self.first_ms = self.first_ms.min(other.first_ms);
        self.last_ms = self.last_ms.max(other.last_ms);
        self.total_us += other.total_us;
        self.waiting_us += other.waiting_us;
        self.most_us = self.most_us.max(other.most_us);
        self.times.join(&other.times);
        self.waits.join(&other.waits);
        self.served.join(&other.served);
    }

    /// How many ended with an error.
    pub fn failed(&self) -> u64 {
        let told: u64 = self.errors.iter().map(|(_, count)| count).sum();
        told + self.other_errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_add_up_on_one_core_as_on_two() {
        let call = |at_ms, waiting_us, error| Call {
            error,
            rows_sent: 2,
            rows_changed: 1,
            bytes: 30,
            rows_read: 9,
            bytes_read: 90,
            at_ms,
            waiting_us,
            server_us: 100,
        };
        let calls = [
            call(5, 10, None),
            call(9, 0, Some(1062)),
            call(7, 500, Some(1213)),
            call(6, 1, Some(1062)),
        ];
        let mut one = Counts::default();
        calls.iter().for_each(|call| one.add(call));
        let (mut a, mut b) = (Counts::default(), Counts::default());
        a.add(&calls[0]);
        calls[1..].iter().for_each(|call| b.add(call));
        a.join(&b);
        a.join(&Counts::default());
        assert_eq!(a, one);
        assert_eq!((one.calls, one.failed(), one.most_us), (4, 3, 600));
        assert_eq!((one.first_ms, one.last_ms), (5, 9));
        assert_eq!(one.errors, [(1062, 2), (1213, 1)]);
        assert_eq!((one.rows_read, one.bytes_read), (36, 360));
    }

    #[test]
    fn numbers_of_errors_are_bounded() {
        let mut counts = Counts::default();
        for number in 1000..1020 {
            counts.add(&Call {
                error: Some(number),
                ..Call::default()
            });
        }
        assert_eq!(counts.errors.len(), ERRORS_MAX);
        assert_eq!((counts.other_errors, counts.failed()), (12, 20));
    }
}
