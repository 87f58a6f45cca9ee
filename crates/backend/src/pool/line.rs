//! Who waits for a connection to one server, and whose turn is next.
//!
//! Sessions of one user are served in the order they came, and users in turn, so a user with a
//! thousand clients does not keep one with a single client waiting for all of them. A connection
//! that comes back is of use to its own user at once, while others must log in anew on it; so a few
//! of its own may go first.

use std::collections::VecDeque;

use futures_channel::oneshot;

/// So many sessions of the same user may follow each other on returned connections while another
/// user waits.
const STREAK_MAX: u32 = 8;

/// Those who wait for one server.
#[derive(Default)]
pub(crate) struct Line {
    /// Users with somebody waiting; the one whose turn is next is in front.
    users: VecDeque<(u32, VecDeque<Waiter>)>,
    /// How often in a row a returned connection went to its own user.
    streak: u32,
}

struct Waiter {
    ticket: u64,
    wake: oneshot::Sender<()>,
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub fn len(&self) -> usize {
        self.users.iter().map(|(_, waiters)| waiters.len()).sum()
    }

    /// Takes a place at the end.
    pub fn push(&mut self, user: u32, ticket: u64, wake: oneshot::Sender<()>) {
        let waiter = Waiter { ticket, wake };
        match self.users.iter_mut().find(|(other, _)| *other == user) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.users.push_back((user, VecDeque::from([waiter]))),
        }
    }

    /// Whose turn it is. `returned` is the user of a connection that has just come back.
    pub fn next(&mut self, returned: Option<u32>) -> Option<oneshot::Sender<()>> {
        let own = returned.filter(|_| self.streak < STREAK_MAX);
        let own = own.and_then(|user| self.users.iter().position(|(other, _)| *other == user));
        self.streak = if own.is_some() { self.streak + 1 } else { 0 };
        let (user, mut waiters) = match own {
            Some(at) => self.users.remove(at)?,
            None => self.users.pop_front()?,
        };
        let waiter = waiters.pop_front();
        if !waiters.is_empty() {
            match own {
                Some(at) => self.users.insert(at, (user, waiters)),
                None => self.users.push_back((user, waiters)),
            }
        }
        waiter.map(|waiter| waiter.wake)
    }

    /// Leaves the line; false when it was this one's turn already.
    pub fn leave(&mut self, ticket: u64) -> bool {
        let before = self.len();
        for (_, waiters) in &mut self.users {
            waiters.retain(|waiter| waiter.ticket != ticket);
        }
        self.users.retain(|(_, waiters)| !waiters.is_empty());
        self.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of these users, and the receivers of their calls.
    fn line(users: &[u32]) -> (Line, Vec<oneshot::Receiver<()>>) {
        let mut line = Line::default();
        let calls = users.iter().enumerate().map(|(ticket, user)| {
            let (wake, woken) = oneshot::channel();
            line.push(*user, ticket as u64, wake);
            woken
        });
        let calls = calls.collect();
        (line, calls)
    }

    /// Calls the next one; gives its ticket.
    fn call(
        line: &mut Line,
        calls: &mut [oneshot::Receiver<()>],
        returned: Option<u32>,
    ) -> Option<usize> {
        line.next(returned)?.send(()).expect("somebody waits");
        calls
            .iter_mut()
            .position(|c| matches!(c.try_recv(), Ok(Some(()))))
    }

    #[test]
    fn users_take_turns_and_their_sessions_keep_their_order() {
        let (mut line, mut calls) = line(&[1, 1, 1, 2, 3, 2]);
        let mut order = Vec::new();
        while let Some(ticket) = call(&mut line, &mut calls, None) {
            order.push(ticket);
            calls[ticket].close();
        }
        assert_eq!(order, [0, 3, 4, 1, 5, 2]);
        assert!(line.is_empty());
    }

    #[test]
    fn a_returned_connection_goes_to_its_own_user_for_a_while() {
        let (mut line, mut calls) = line(&[&[2; 1][..], &[1; 20][..]].concat());
        let served: Vec<usize> = (0..12)
            .map(|_| call(&mut line, &mut calls, Some(1)).expect("somebody waits"))
            .collect();
        assert_eq!(served, [1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 10, 11]);
    }

    #[test]
    fn who_leaves_is_not_called() {
        let (mut line, mut calls) = line(&[1, 2, 1]);
        assert!(line.leave(0));
        assert!(!line.leave(0));
        assert_eq!(line.len(), 2);
        assert_eq!(call(&mut line, &mut calls, None), Some(2));
        assert_eq!(call(&mut line, &mut calls, None), Some(1));
        assert!(call(&mut line, &mut calls, None).is_none());
    }
}
