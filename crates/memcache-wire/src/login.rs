//! The first command of a client that has to log in: a `set` whose value is `user password`. Key,
//! flags and time of expiry mean nothing.

use crate::line::{Words, newline};
use crate::number::read_number;

/// The longest line.
const LINE_BYTES_MAX: usize = 2048;
/// The shortest line that memcached does not hang up on.
const LINE_BYTES_MIN: usize = 6;
/// The longest value.
const TOKEN_BYTES_MAX: u64 = 16384;

/// What stands at the front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login<'a> {
    /// Not enough: the buffer must have this many bytes at least.
    Incomplete { needed: usize },
    /// Who the client says it is. Success is answered with `STORED`.
    Token {
        user: &'a [u8],
        password: &'a [u8],
        used: usize,
    },
    /// Something else; the client may try again.
    Bad { reply: &'static str, used: usize },
    /// What comes is not this protocol.
    Hangup,
}

/// The answer to a wrong name or password.
pub const DENIED: &str = "CLIENT_ERROR authentication failure";

/// Looks for a login at the front of `input`.
pub fn login(input: &[u8]) -> Login<'_> {
    let Some(end) = newline(input, 0) else {
        return match input.len() > LINE_BYTES_MAX {
            true => Login::Hangup,
            false => Login::Incomplete {
                needed: input.len() + 1,
            },
        };
    };
    if !(LINE_BYTES_MIN..=LINE_BYTES_MAX).contains(&end) {
        return Login::Hangup;
    }
    let line = &input[..end];
    let used = end + 1;
    let mut words = Words::new(line.strip_suffix(b"\r").unwrap_or(line));
    let is_set = words.next() == Some(b"set") && line[0] != b' ';
    let length = words.nth(3).and_then(read_number);
    let Some(length) = length.filter(|_| is_set) else {
        return Login::Bad {
            reply: "CLIENT_ERROR unauthenticated",
            used,
        };
    };
    if length > TOKEN_BYTES_MAX {
        return Login::Bad {
            reply: "CLIENT_ERROR auth token too long",
            used,
        };
    }
    let needed = used + length as usize + 2;
    let Some(data) = input.get(used..needed) else {
        return Login::Incomplete { needed };
    };
    let bad = |reply| Login::Bad {
        reply,
        used: needed,
    };
    let Some(token) = data.strip_suffix(b"\r\n") else {
        return bad("CLIENT_ERROR bad command line termination");
    };
    let Some(blank) = token.iter().position(|byte| *byte == b' ') else {
        return bad("CLIENT_ERROR bad authentication token format");
    };
    Login::Token {
        user: &token[..blank],
        password: &token[blank + 1..],
        used: needed,
    }
}
