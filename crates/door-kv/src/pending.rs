//! What a client has under way: the replies that it is to get, in their order.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use kv::{Recalled, Store, Ticket};
use memcache_wire::{Meta, Words};

/// A reply to come.
pub(crate) enum Reply {
    /// It is known already.
    Text(Vec<u8>),
    /// One item of a `get`.
    Value {
        ticket: Ticket,
        key: Span,
        with_cas: bool,
        touched: bool,
    },
    /// One item of a `get` that came from the row cache.
    Recalled {
        item: Recalled,
        key: Span,
        with_cas: bool,
    },
    /// The end of a `get`.
    End,
    Classic {
        ticket: Ticket,
        verb: Verb,
        quiet: bool,
    },
    Meta(Box<MetaReply>),
}

/// What a classic request wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Store,
    Cas,
    Delete,
    Count { down: bool },
    Touch,
    Flush,
}

/// What is needed for the reply to a meta request.
pub(crate) struct MetaReply {
    pub ticket: Ticket,
    /// Where it is stored anew for the turn of a client.
    pub store: Rc<Store>,
    pub kind: MetaKind,
    /// As the client wrote it.
    pub key: Span,
    /// Without the container in front, and decoded.
    pub name: Span,
    pub base64: bool,
    pub flags: Span,
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaKind {
    Get {
        with_value: bool,
        compare: Option<u64>,
        vivify: Option<i64>,
        recache_s: Option<i64>,
        touched: bool,
    },
    /// The length is what the item has afterwards, where that is known.
    Store {
        length: Option<usize>,
    },
    Delete,
    Count {
        with_value: bool,
        down: bool,
    },
    Debug,
}

/// Bytes of a request, kept until its reply is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// The queue.
#[derive(Default)]
pub(crate) struct Pending {
    replies: VecDeque<Reply>,
    /// Keys and flags of the requests in the queue.
    texts: Vec<u8>,
    /// An item of the current `get` was refused: its other items and its end are not written.
    pub failed_get: bool,
}

/// While there are more bytes of keys and flags than this, nothing is taken in.
const TEXT_BYTES_MAX: usize = 256 << 10;

impl Pending {
    pub fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    pub fn pop(&mut self) -> Option<Reply> {
        let next = self.replies.pop_front();
        if next.is_none() {
            self.texts.clear();
            self.texts.shrink_to(4096);
        }
        next
    }

    pub fn len(&self) -> usize {
        self.replies.len()
    }

    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// No more texts can be kept before the queue is empty.
    pub fn is_stuffed(&self) -> bool {
        self.texts.len() > TEXT_BYTES_MAX
    }

    pub fn keep(&mut self, text: &[u8]) -> Span {
        let start = self.texts.len() as u32;
        self.texts.extend_from_slice(text);
        let end = self.texts.len() as u32;
        Span { start, end }
    }

    pub fn text(&self, span: Span) -> &[u8] {
        &self.texts[Range::from(span)]
    }

    /// The flags of a meta request.
    pub fn flags(&self, span: Span) -> Words<'_> {
        Words::new(self.text(span))
    }
}

impl From<Span> for Range<usize> {
    fn from(span: Span) -> Range<usize> {
        span.start as usize..span.end as usize
    }
}

impl MetaKind {
    pub fn of_get(meta: &Meta<'_>) -> MetaKind {
        MetaKind::Get {
            with_value: meta.with_value,
            compare: meta.compare,
            vivify: meta.vivify,
            recache_s: meta.recache,
            touched: meta.expiry.is_some(),
        }
    }
}
