//! The next request of a buffer.

use crate::line::{Words, newline};
use crate::request::Request;
use crate::{meta, text};

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest line of any command but those that take many keys.
    pub line_bytes_max: usize,
    /// The longest line of `get`, `gets`, `gat` and `gats`.
    pub keys_line_bytes_max: usize,
    /// The longest value.
    pub value_bytes_max: usize,
}

impl Default for Limits {
    /// memcached's own, except that memcached has no limit on lines of keys.
    fn default() -> Limits {
        Limits {
            line_bytes_max: 2048,
            keys_line_bytes_max: 4 << 20,
            value_bytes_max: 1 << 20,
        }
    }
}

/// What stands at the front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// Not enough: nothing new can be said before the buffer has `needed` bytes. The next look may begin
    /// behind the first `searched` ones.
    Incomplete { searched: usize, needed: usize },
    /// A request in the first `used` bytes.
    Request { request: Request<'a>, used: usize },
    /// A request that cannot be served, in the first `used` bytes: the reply is `reply` (without line
    /// end), and none when `quiet`. The `swallow` bytes after `used` are its value, which is dropped as
    /// it comes.
    Bad {
        reply: &'static str,
        quiet: bool,
        used: usize,
        swallow: u64,
    },
    /// Nobody can say where the next request begins, or the client speaks another protocol. The reply,
    /// if any, is the last thing that it is told.
    Hangup { reply: Option<&'static str> },
}

pub(crate) const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
pub(crate) const BAD_DATA: &str = "CLIENT_ERROR bad data chunk";
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(crate) const LINE_TOO_LONG: &str = "CLIENT_ERROR line too long";

/// Why a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub reply: &'static str,
    pub quiet: bool,
    /// Length of the value that follows the line, its line end not counted.
    pub value: Option<usize>,
    pub hangup: bool,
}

impl Fault {
    pub fn new(reply: &'static str) -> Fault {
        Fault {
            reply,
            quiet: false,
            value: None,
            hangup: false,
        }
    }
}

/// A line that was understood. A value may have to follow.
pub(crate) enum Head<'a> {
    Whole(Request<'a>),
    /// The request lacks its value of so many bytes.
    Value {
        request: Request<'a>,
        length: usize,
        /// What to do about a value that does not end where it should: nothing is said.
        quiet: bool,
    },
}

/// Looks for a request at the front of `input`, of which the first `searched` bytes are known to have no
/// line end (from [`Parsed::Incomplete`]; 0 is always right).
pub fn parse<'a>(input: &'a [u8], searched: usize, limits: &Limits) -> Parsed<'a> {
    let Some(end) = newline(input, searched) else {
        return match input.len() > line_max(input, limits) {
            true => too_long(input),
            false => Parsed::Incomplete {
                searched: input.len(),
                needed: input.len() + 1,
            },
        };
    };
    let line = &input[..end];
    if end > line_max(line, limits) {
        return too_long(line);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let used = end + 1;
    let head = match line {
        // memcached looks at the second byte first, and takes lines of less than two bytes for broken.
        [] | [_] => Err(Fault::new(BAD_LINE)),
        [b'm', _] | [b'm', _, b' ', ..] => meta::parse(line),
        _ => text::parse(line),
    };
    match head {
        Ok(Head::Whole(request)) => Parsed::Request { request, used },
        Ok(Head::Value {
            request,
            length,
            quiet,
        }) => with_value(input, used, request, length, quiet, limits),
        Err(fault) if fault.hangup => Parsed::Hangup { reply: None },
        Err(fault) => Parsed::Bad {
            reply: fault.reply,
            quiet: fault.quiet,
            used,
            swallow: fault.value.map_or(0, |value| value as u64 + 2),
        },
    }
}

/// Puts the value into its request, when it is there.
fn with_value<'a>(
    input: &'a [u8],
    used: usize,
    request: Request<'a>,
    length: usize,
    quiet: bool,
    limits: &Limits,
) -> Parsed<'a> {
    if length > limits.value_bytes_max {
        return Parsed::Bad {
            reply: TOO_LARGE,
            quiet,
            used,
            swallow: length as u64 + 2,
        };
    }
    let needed = used + length + 2;
    let Some(data) = input.get(used..needed) else {
        // The line is short; it is simply read again.
        return Parsed::Incomplete {
            searched: 0,
            needed,
        };
    };
    let Some(bytes) = data.strip_suffix(b"\r\n") else {
        return Parsed::Bad {
            reply: BAD_DATA,
            quiet,
            used: needed,
            swallow: 0,
        };
    };
    let request = match request {
        Request::Store(store) => Request::Store(crate::Store {
            value: bytes,
            ..store
        }),
        Request::MetaStore { meta, mode, .. } => Request::MetaStore {
            meta,
            mode,
            value: bytes,
        },
        other => other,
    };
    Parsed::Request {
        request,
        used: needed,
    }
}

fn takes_keys(line: &[u8]) -> bool {
    let start = &line[..line.len().min(5)];
    start.starts_with(b"get ")
        || start.starts_with(b"gat ")
        || start == b"gets "
        || start == b"gats "
}

fn line_max(line: &[u8], limits: &Limits) -> usize {
    match takes_keys(line) {
        true => limits.keys_line_bytes_max,
        false => limits.line_bytes_max,
    }
}

/// Who asks for too many keys is told; what is no command line at all (somebody else's protocol, the
/// middle of a value) is not answered.
fn too_long(line: &[u8]) -> Parsed<'static> {
    let printable = line[..line.len().min(64)]
        .iter()
        .all(|byte| (b' '..0x7f).contains(byte));
    Parsed::Hangup {
        reply: printable.then_some(LINE_TOO_LONG),
    }
}

/// True when the last word asks for silence.
pub(crate) fn is_quiet(words: &Words<'_>) -> bool {
    words.last_of() == Some(b"noreply")
}
