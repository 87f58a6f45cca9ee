//! Requests become commands on containers, and places in the queue of replies.

use std::rc::Rc;
use std::sync::Arc;

use kv::{Change, EarlyOfClient, Expiry, Kv, Op, Outcome, Refusal, Sight, Store, Ticket};
use memcache_wire::{Count, KEY_BYTES_MAX, Key, Limits, Parsed, Request, Words, parse, reply};
use memory::Reservation;

use crate::answer::refusal_line;
use crate::change::{meta_change, mode, token_of};
use crate::counts::{Counts, add, count};
use crate::gets::OpenGet;
use crate::order::Order;
use crate::pending::{MetaKind, MetaReply, Pending, Reply, Verb};
use crate::rights::{Need, Rights};
use crate::storing::Storing;
use crate::{House, early, naming, stats};

/// So many bytes of values one client's requests may bring or fetch at a time.
const VALUES_BYTES: usize = 4 << 20;

/// Commands of one client under way, at least and at most.
const COMMANDS: (usize, usize) = (16, 1024);

/// Replies are sent when there are so many bytes of them, even before the batch is done.
pub(crate) const OUT_BYTES: usize = 128 << 10;

/// The longest line of many keys.
const KEYS_LINE_BYTES_MAX: usize = 4 << 20;

/// How the name of a container begins.
pub(crate) const NAMED: &[u8] = b"@@";

const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// Where in the buffer of received bytes the next request begins, and what is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pub at: usize,
    /// So many bytes from there have been looked at in vain.
    pub searched: usize,
    /// So many must be there before another look.
    pub needed: usize,
    /// So many bytes of a value that nobody wants are still to come.
    pub swallow: u64,
}

/// Why no more requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The buffer has no whole one.
    All,
    /// Enough is under way.
    Enough,
    /// The client has said its last.
    Last,
}

/// One client's requests and replies, without its connection.
pub(crate) struct Exchange {
    pub house: Arc<House>,
    pub core: usize,
    kv: Rc<Kv>,
    /// `None` where everything is allowed.
    pub rights: Option<Rights>,
    pub limits: Limits,
    pub pending: Pending,
    pub out: Vec<u8>,
    /// What the last replies that were sent together had, for the next.
    pub sent_bytes: usize,
    /// The container that the client chose, and what it is at the moment.
    container: Option<Box<str>>,
    current: Option<Rc<Store>>,
    pub open_get: Option<OpenGet>,
    /// What the row cache may show of it while requests are taken.
    pub sight: Sight,
    pub order: Order,
    /// How large values have been of late.
    pub item_bytes: usize,
    /// Values that are being stored, until the queue is empty.
    pub storing: Storing,
    /// What the client has had acknowledged before its commit.
    pub early: Rc<EarlyOfClient>,
}

impl Exchange {
    /// `budget` is any reservation of the one that values are taken from.
    pub fn new(
        house: Arc<House>,
        kv: Rc<Kv>,
        core: usize,
        rights: Option<Rights>,
        budget: &Reservation,
    ) -> Exchange {
        let limits = Limits {
            keys_line_bytes_max: KEYS_LINE_BYTES_MAX,
            value_bytes_max: house.settings.value_bytes_max,
            ..Limits::default()
        };
        Exchange {
            house,
            core,
            kv,
            rights,
            limits,
            pending: Pending::default(),
            out: Vec::new(),
            sent_bytes: 0,
            container: None,
            current: None,
            open_get: None,
            sight: Sight::default(),
            order: Order::default(),
            item_bytes: 0,
            storing: Storing::new(budget),
            early: Rc::default(),
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.house.counts[self.core]
    }

    /// Takes requests from `inbox` until it has no more, or enough are under way.
    pub fn take(&mut self, inbox: &[u8], cursor: &mut Cursor) -> Taken {
        let taken = self.take_some(inbox, cursor);
        // It was of this moment, and keeps the memory of a cache that may be dropped.
        self.sight = Sight::default();
        taken
    }

    fn take_some(&mut self, inbox: &[u8], cursor: &mut Cursor) -> Taken {
        // What was declared anew since counts from here on.
        self.current = None;
        if self.pending.is_empty() {
            self.storing.clear();
            self.order.forget();
        }
        loop {
            if !self.go_on_with_get(inbox) || !self.has_room() {
                return Taken::Enough;
            }
            if cursor.swallow > 0 {
                let there = (inbox.len() - cursor.at) as u64;
                let gone = cursor.swallow.min(there);
                cursor.at += gone as usize;
                cursor.swallow -= gone;
            }
            let rest = &inbox[cursor.at..];
            if rest.is_empty() || rest.len() < cursor.needed {
                return Taken::All;
            }
            let used = match parse(rest, cursor.searched, &self.limits) {
                Parsed::Incomplete { searched, needed } => {
                    (cursor.searched, cursor.needed) = (searched, needed);
                    return Taken::All;
                }
                Parsed::Hangup { reply } => {
                    reply.into_iter().for_each(|text| self.say(text));
                    return Taken::Last;
                }
                Parsed::Bad {
                    reply,
                    quiet,
                    used,
                    swallow,
                } => {
                    cursor.swallow = swallow;
                    if reply == TOO_LARGE {
                        count(&self.counts().store_too_large);
                    }
                    if !quiet {
                        self.say(reply);
                    }
                    used
                }
                Parsed::Request {
                    request: Request::Quit,
                    ..
                } => return Taken::Last,
                Parsed::Request { request, .. } if !self.may_begin(&request) => {
                    return Taken::Enough;
                }
                Parsed::Request { request, used } => {
                    self.handle(&request, inbox, cursor.at + used);
                    used
                }
            };
            *cursor = Cursor {
                at: cursor.at + used,
                swallow: cursor.swallow,
                ..Cursor::default()
            };
        }
    }

    /// False when what the client asked before has to be done first.
    fn may_begin(&self, request: &Request<'_>) -> bool {
        self.pending.is_empty()
            || self.order.admits(request, |key| {
                let named = key.strip_prefix(NAMED).and_then(|name| self.key_of(name));
                named.map_or(key, |(_, key)| key)
            })
    }

    /// True while more may be under way: few when values are large.
    pub fn has_room(&self) -> bool {
        let fitting = VALUES_BYTES / self.item_bytes.max(1);
        let room = fitting.clamp(COMMANDS.0, COMMANDS.1);
        self.pending.len() < room
            && !self.pending.is_stuffed()
            && self.storing.bytes() < VALUES_BYTES
            && self.out.len() < OUT_BYTES
    }

    /// True when half of what was under way is done: then a batch of new ones is worth it.
    pub fn is_half_empty(&self) -> bool {
        self.pending.len() * 2 < COMMANDS.1 && self.has_room()
    }

    fn say(&mut self, text: &str) {
        let mut line = Vec::with_capacity(text.len() + 2);
        reply::line(&mut line, text);
        self.pending.push(Reply::Text(line));
    }

    /// `end` is where the request ends in the buffer.
    fn handle(&mut self, request: &Request<'_>, inbox: &[u8], end: usize) {
        if self.tell_lost(request) {
            return;
        }
        match *request {
            Request::Get(get) => self.begin_get(&get, inbox, end),
            Request::Store(store) => {
                count(&self.counts().cmd_set);
                let (mode, cas) = mode(store.mode, false);
                let verb = match cas {
                    Some(_) => Verb::Cas,
                    None => Verb::Store,
                };
                let change = Change::Store {
                    mode,
                    value: store.value.into(),
                    flags: store.flags,
                    expiry: Expiry::from_wire(store.expiry),
                    cas,
                };
                self.classic(&store.key, change, verb, store.quiet);
            }
            Request::Count(counts) => self.count(&counts),
            Request::Delete { key, quiet } => {
                self.classic(&key, Change::Delete { cas: None }, Verb::Delete, quiet);
            }
            Request::Touch { key, expiry, quiet } => {
                count(&self.counts().cmd_touch);
                let change = Change::Touch(Expiry::from_wire(expiry));
                self.classic(&key, change, Verb::Touch, quiet);
            }
            Request::FlushAll { delay, quiet } => self.flush(delay, quiet),
            Request::Stats(words) => {
                let text = stats::answer(self, words);
                self.pending.push(Reply::Text(text));
            }
            Request::Version => self.say(stats::VERSION_LINE),
            Request::Verbosity { quiet: false } => self.say(reply::OK),
            Request::Verbosity { quiet: true } | Request::Quit => {}
            Request::MetaNoop => self.say(reply::META_NOOP),
            Request::MetaGet(_)
            | Request::MetaStore { .. }
            | Request::MetaDelete(_)
            | Request::MetaCount { .. }
            | Request::MetaDebug(_) => self.meta(request),
        }
    }

    /// The key behind the name of a container.
    pub fn key_of<'k>(&self, name_and_key: &'k [u8]) -> Option<(&'k [u8], &'k [u8])> {
        naming::divide(
            &self.kv,
            self.house.settings.delimiter.as_bytes(),
            name_and_key,
        )
    }

    pub fn named(&self, name: &[u8]) -> Result<Rc<Store>, Refusal> {
        let text = std::str::from_utf8(name).ok();
        text.and_then(|name| self.kv.container(Some(name)))
            .ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                Refusal::client(format!("there is no container {name}"))
            })
    }

    pub fn remember(&mut self, name: &[u8], store: &Rc<Store>) {
        self.container = Some(String::from_utf8_lossy(name).into());
        self.current = Some(store.clone());
    }

    /// The container that a key is for, and the key in it.
    pub fn place<'k>(
        &mut self,
        key: &'k [u8],
        need: Need,
    ) -> Result<(Rc<Store>, &'k [u8]), Refusal> {
        if let Some(name) = key.strip_prefix(NAMED) {
            let (name, key) = self
                .key_of(name)
                .filter(|(_, key)| !key.is_empty())
                .ok_or_else(|| Refusal::client("there is no key behind the container's name"))?;
            let store = self.named(name)?;
            self.may(&store, need)?;
            naming::heed_policy(store.declared(), need)?;
            if self.house.settings.sticky {
                self.remember(name, &store);
            }
            return Ok((store, key));
        }
        let store = self.here()?;
        self.may(&store, need)?;
        naming::heed_policy(store.declared(), need)?;
        Ok((store, key))
    }

    /// Whether the client's account has the right.
    pub fn may(&self, store: &Store, need: Need) -> Result<(), Refusal> {
        match &self.rights {
            None => Ok(()),
            Some(rights) => rights.check(store.declared(), need),
        }
    }

    /// The container that counts where none is named.
    pub fn here(&mut self) -> Result<Rc<Store>, Refusal> {
        if let Some(store) = &self.current {
            return Ok(store.clone());
        }
        let store = match self.container.as_deref() {
            Some(name) => self.kv.container(Some(name)).ok_or_else(|| {
                Refusal::client(format!("the container {name} is gone; choose another"))
            })?,
            None => self.kv.container(None).ok_or_else(|| {
                Refusal::server("there is no container: make one by HEDDLE KV CREATE")
            })?,
        };
        self.current = Some(store.clone());
        Ok(store)
    }

    fn classic(&mut self, key: &Key<'_>, change: Change, verb: Verb, quiet: bool) {
        let ticket = match self.place(key.word(), Need::of(&change)) {
            Ok((store, key)) => match self.fits(&store, &change) {
                Ok(()) => {
                    self.is_made(&store, key, &change);
                    self.submit(&store, op(key, change), verb == Verb::Store)
                }
                Err(refusal) => refused(refusal),
            },
            Err(refusal) => refused(refusal),
        };
        self.pending.push(Reply::Classic {
            ticket,
            verb,
            quiet,
        });
    }

    /// A change ends the turn of who was to make the item.
    fn is_made(&self, store: &Store, key: &[u8], change: &Change) {
        if matches!(change.plain(), Change::Store { .. } | Change::Delete { .. }) {
            self.house.turns.end(&store.declared().name, key);
        }
    }

    fn count(&mut self, counts: &Count<'_>) {
        let change = Change::Count {
            by: counts.by,
            down: counts.down,
            initial: None,
            expiry: None,
            cas: None,
        };
        let verb = Verb::Count { down: counts.down };
        self.classic(&counts.key, change, verb, counts.quiet);
    }

    fn flush(&mut self, delay: i64, quiet: bool) {
        count(&self.counts().cmd_flush);
        let here = self.here().and_then(|store| {
            self.may(&store, Need::Delete)?;
            Ok(store)
        });
        let ticket = match here {
            Err(refusal) => refused(refusal),
            Ok(store) if !store.declared().flush => {
                refused(Refusal::client("flush_all not allowed"))
            }
            Ok(store) if delay > 0 => store.flush_later(Expiry::from_wire(delay)),
            Ok(store) => {
                self.order.flush();
                store.flush()
            }
        };
        let verb = Verb::Flush;
        self.pending.push(Reply::Classic {
            ticket,
            verb,
            quiet,
        });
    }

    fn meta(&mut self, request: &Request<'_>) {
        count(&self.counts().cmd_meta);
        let nothing = Words::new(b"");
        let (key, flags, quiet) = match request {
            Request::MetaDebug(key) => (*key, nothing, false),
            Request::MetaGet(meta)
            | Request::MetaStore { meta, .. }
            | Request::MetaDelete(meta)
            | Request::MetaCount { meta, .. } => (meta.key, meta.flags, meta.quiet),
            _ => return,
        };
        let mut scratch = [0; KEY_BYTES_MAX];
        let bytes = key.bytes(&mut scratch);
        let placed = meta_change(request).and_then(|(change, kind)| {
            // Of an item that is missing the client may be told to make it, by an empty one.
            let makes = matches!(
                kind,
                MetaKind::Get {
                    vivify: Some(_),
                    ..
                }
            );
            let need = if makes {
                Need::Write
            } else {
                Need::of(&change)
            };
            let (store, name) = self.place(bytes, need)?;
            self.fits(&store, &change)?;
            self.item_bytes = self.item_bytes.max(store.item_bytes());
            Ok((store, name, change, kind))
        });
        let (store, name, change, kind) = match placed {
            Ok(placed) => placed,
            // Errors are never quiet.
            Err(refusal) => return self.pending.push(Reply::Text(refusal_line(&refusal))),
        };
        self.is_made(&store, name, &change);
        if matches!(request, Request::MetaGet(_) | Request::MetaDebug(_)) {
            self.order.read(name);
        }
        let ticket = match token_of(request) {
            None => self.submit(&store, op(name, change), early::may_be(request)),
            Some(token) => store.submit_after(op(name, change), &String::from_utf8_lossy(token)),
        };
        let (name, word) = (self.pending.keep(name), self.pending.keep(key.word()));
        let flags = self.pending.keep(flags.rest());
        self.pending.push(Reply::Meta(Box::new(MetaReply {
            ticket,
            store,
            kind,
            key: word,
            name,
            base64: key.is_base64(),
            flags,
            quiet,
        })));
    }

    /// Notes a value that was sent, for how many may be under way.
    pub fn note_item(&mut self, bytes: usize) {
        let faded = self.item_bytes - self.item_bytes / 16;
        self.item_bytes = faded.max(bytes);
    }

    /// Notes bytes that came from the client.
    pub fn note_received(&self, bytes: usize) {
        add(&self.counts().bytes_read, bytes as u64);
    }
}

pub(crate) fn op(key: &[u8], change: Change) -> Op {
    let key = key.into();
    Op { key, change }
}

/// A ticket that has its answer.
pub(crate) fn refused(refusal: Refusal) -> Ticket {
    Ticket::done(Outcome::Refused(refusal))
}
