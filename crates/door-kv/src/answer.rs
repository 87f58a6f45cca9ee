//! Outcomes become replies.

use kv::{Change, Expiry, Item, Mode, Op, Outcome, Recalled, Refusal, Ticket};
use memcache_wire::meta::{self, Asked, Code, Facts};
use memcache_wire::{push_number, reply};

use crate::counts::count;
use crate::intake::{Exchange, OUT_BYTES};
use crate::pending::{MetaKind, MetaReply, Reply, Span, Verb};

/// What is to be waited for before a reply is whole.
pub(crate) enum Next {
    Written,
    /// The request goes on: its next outcome.
    Again(Reply),
}

impl Reply {
    /// What it waits for.
    pub fn ticket(&mut self) -> Option<&mut Ticket> {
        match self {
            Reply::Text(_) | Reply::End | Reply::Recalled { .. } => None,
            Reply::Value { ticket, .. } | Reply::Classic { ticket, .. } => Some(ticket),
            Reply::Meta(meta) => Some(&mut meta.ticket),
        }
    }
}

/// The line that tells of a refusal.
pub(crate) fn refusal_line(refusal: &Refusal) -> Vec<u8> {
    let mut out = Vec::with_capacity(refusal.text.len() + 16);
    match refusal.by_client {
        true => reply::client_error(&mut out, &refusal.text),
        false => reply::server_error(&mut out, &refusal.text),
    }
    out
}

impl Exchange {
    /// Writes a reply that waits for nothing.
    pub fn write(&mut self, reply: Reply) {
        match reply {
            Reply::Text(text) => self.out.extend_from_slice(&text),
            Reply::End => self.end_get(),
            Reply::Recalled {
                item,
                key,
                with_cas,
            } if !self.pending.failed_get => {
                self.note_hit(item.value().len(), false);
                let (key, cas) = (self.pending.text(key), with_cas.then(|| item.cas()));
                reply::value(&mut self.out, key, item.flags(), item.value(), cas);
            }
            _ => {}
        }
    }

    /// Writes an item of the row cache, whose turn it is.
    pub fn write_item(&mut self, word: &[u8], with_cas: bool, item: &Recalled) {
        if self.pending.failed_get {
            return;
        }
        self.note_hit(item.value().len(), false);
        let cas = with_cas.then(|| item.cas());
        reply::value(&mut self.out, word, item.flags(), item.value(), cas);
    }

    /// What was refused has ended it already.
    pub fn end_get(&mut self) {
        if !std::mem::take(&mut self.pending.failed_get) {
            reply::line(&mut self.out, reply::END);
        }
    }

    /// Writes a reply whose outcome is there.
    pub fn answer(&mut self, reply: Reply, outcome: Outcome) -> Next {
        match reply {
            Reply::Value {
                key,
                with_cas,
                touched,
                ..
            } => {
                self.value(key, with_cas, touched, outcome);
            }
            Reply::Classic { verb, quiet, .. } => self.classic_answer(verb, quiet, outcome),
            Reply::Meta(meta) => return self.meta_answer(meta, outcome),
            known => self.write(known),
        }
        Next::Written
    }

    fn refuse(&mut self, refusal: &Refusal) {
        let counts = self.counts();
        count(match refusal.by_client {
            true => &counts.refusals_client,
            false => &counts.refusals_server,
        });
        let line = refusal_line(refusal);
        self.out.extend_from_slice(&line);
    }

    /// One item of a `get`. When one is refused, the line that says so takes the place of the end.
    fn value(&mut self, key: Span, with_cas: bool, touched: bool, outcome: Outcome) {
        if self.pending.failed_get {
            return;
        }
        match outcome {
            Outcome::Hit(item) => {
                self.note_hit(item.value.len(), touched);
                let (key, cas) = (self.pending.text(key), with_cas.then_some(item.cas));
                reply::value(&mut self.out, key, item.flags, &item.value, cas);
            }
            Outcome::Refused(refusal) => {
                self.pending.failed_get = true;
                self.refuse(&refusal);
            }
            _ => self.hit(false, touched),
        }
    }

    /// An item is about to be written.
    fn note_hit(&mut self, bytes: usize, touched: bool) {
        if self.out.capacity() == 0 {
            self.out.reserve(self.sent_bytes.min(OUT_BYTES));
        }
        self.hit(true, touched);
        self.note_item(bytes);
    }

    fn hit(&self, hit: bool, touched: bool) {
        let counts = self.counts();
        count(match hit {
            true => &counts.get_hits,
            false => &counts.get_misses,
        });
        if touched {
            count(&counts.cmd_touch);
            count(match hit {
                true => &counts.touch_hits,
                false => &counts.touch_misses,
            });
        }
    }

    fn classic_answer(&mut self, verb: Verb, quiet: bool, outcome: Outcome) {
        self.note(verb, &outcome);
        if quiet {
            if let Outcome::Refused(_) = outcome {
                count(&self.counts().refusals_server);
            }
            return;
        }
        let text = match outcome {
            Outcome::Refused(refusal) => return self.refuse(&refusal),
            Outcome::Number { value, .. } => return reply::number(&mut self.out, value),
            Outcome::Stored { .. } => reply::STORED,
            Outcome::NotStored => reply::NOT_STORED,
            Outcome::Exists => reply::EXISTS,
            Outcome::NotFound | Outcome::Miss => reply::NOT_FOUND,
            Outcome::Deleted => reply::DELETED,
            Outcome::Touched | Outcome::Hit(_) | Outcome::Row { .. } => reply::TOUCHED,
            Outcome::Done => reply::OK,
        };
        reply::line(&mut self.out, text);
    }

    /// Counts what became of a change.
    fn note(&self, verb: Verb, outcome: &Outcome) {
        let counts = self.counts();
        let missing = matches!(outcome, Outcome::NotFound | Outcome::Miss);
        let counter = match (verb, outcome) {
            (Verb::Cas, Outcome::Stored { .. }) => &counts.cas_hits,
            (Verb::Cas, Outcome::Exists) => &counts.cas_badval,
            (Verb::Cas, _) if missing => &counts.cas_misses,
            (Verb::Delete, Outcome::Deleted) => &counts.delete_hits,
            (Verb::Delete, _) if missing => &counts.delete_misses,
            (Verb::Touch, Outcome::Touched) => &counts.touch_hits,
            (Verb::Touch, _) if missing => &counts.touch_misses,
            (Verb::Count { down: false }, Outcome::Number { .. }) => &counts.incr_hits,
            (Verb::Count { down: true }, Outcome::Number { .. }) => &counts.decr_hits,
            (Verb::Count { down: false }, _) if missing => &counts.incr_misses,
            (Verb::Count { down: true }, _) if missing => &counts.decr_misses,
            _ => return,
        };
        count(counter);
    }

    fn meta_answer(&mut self, mut reply: Box<MetaReply>, outcome: Outcome) -> Next {
        if let (
            MetaKind::Get {
                vivify: Some(exptime),
                ..
            },
            Outcome::Miss,
        ) = (reply.kind, &outcome)
        {
            // Whoever stores the empty item has the turn to make it.
            let change = Change::Store {
                mode: Mode::Add,
                value: Box::default(),
                flags: 0,
                expiry: Expiry::from_wire(exptime),
                cas: None,
            };
            let key = self.pending.text(reply.name).into();
            reply.ticket = reply.store.submit(Op { key, change });
            return Next::Again(Reply::Meta(reply));
        }
        match outcome {
            // Errors are never quiet.
            Outcome::Refused(refusal) => self.refuse(&refusal),
            Outcome::Hit(item) => self.meta_hit(&reply, &item, false),
            outcome => return self.meta_other(reply, outcome),
        }
        Next::Written
    }

    /// All outcomes but items that were found.
    fn meta_other(&mut self, mut reply: Box<MetaReply>, outcome: Outcome) -> Next {
        let cas = match &outcome {
            Outcome::Stored { cas } | Outcome::Number { cas, .. } => Some(*cas),
            _ => None,
        };
        if let MetaKind::Get {
            vivify: Some(exptime),
            ..
        } = reply.kind
        {
            if let Some(cas) = cas {
                let ttl_s = u64::try_from(exptime).ok().filter(|ttl| *ttl > 0);
                let item = Item {
                    value: Vec::new(),
                    flags: 0,
                    cas,
                    ttl_s,
                };
                let key = self.pending.text(reply.name);
                self.house
                    .turns
                    .take(&reply.store.declared().name, key, ttl_s);
                self.meta_hit(&reply, &item, true);
                return Next::Written;
            }
            // Somebody else was faster: there is an item now, or it was.
            let key = self.pending.text(reply.name).into();
            let change = Change::Get;
            reply.ticket = reply.store.submit(Op { key, change });
            reply.kind = match reply.kind {
                MetaKind::Get {
                    with_value,
                    compare,
                    recache_s,
                    touched,
                    ..
                } => MetaKind::Get {
                    with_value,
                    compare,
                    recache_s,
                    touched,
                    vivify: None,
                },
                kind => kind,
            };
            return Next::Again(Reply::Meta(reply));
        }
        if let Some(verb) = verb_of(reply.kind) {
            self.note(verb, &outcome);
        }
        self.meta_line(&reply, &outcome, cas);
        Next::Written
    }

    fn meta_line(&mut self, reply: &MetaReply, outcome: &Outcome, cas: Option<u64>) {
        let is_get = matches!(reply.kind, MetaKind::Get { .. });
        let code = match outcome {
            Outcome::Miss | Outcome::NotFound if is_get => Code::En,
            Outcome::Miss | Outcome::NotFound if reply.kind == MetaKind::Debug => Code::En,
            Outcome::Miss | Outcome::NotFound => Code::Nf,
            Outcome::NotStored if reply.kind == MetaKind::Delete => Code::Nf,
            Outcome::NotStored => Code::Ns,
            Outcome::Exists => Code::Ex,
            _ => Code::Hd,
        };
        if is_get {
            self.hit(false, false);
        }
        let is_nominal = match code {
            Code::En => is_get,
            Code::Hd => true,
            _ => false,
        };
        if reply.quiet && is_nominal {
            return;
        }
        let size = match reply.kind {
            MetaKind::Store { length } => length,
            _ => None,
        };
        // What was not stored has no cas.
        let stores = matches!(reply.kind, MetaKind::Store { .. });
        let mut flags = self.pending.flags(reply.flags);
        let asks = code == Code::Hd && !is_get && flags.any(|flag| flag == b"G");
        let token = asks.then(|| reply.store.token()).flatten();
        let facts = Facts {
            token: token.as_deref(),
            cas: cas.or(stores.then_some(0)),
            ttl_s: match outcome {
                Outcome::Number { ttl_s, .. } => Some(seconds(*ttl_s)),
                _ => None,
            },
            size,
            ..Facts::default()
        };
        let asked = Asked {
            key: self.pending.text(reply.key),
            base64: reply.base64,
            flags: self.pending.flags(reply.flags),
        };
        match (reply.kind, outcome) {
            (
                MetaKind::Count {
                    with_value: true, ..
                },
                Outcome::Number { value, .. },
            ) => {
                let mut digits = Vec::with_capacity(20);
                push_number(&mut digits, *value);
                meta::value(&mut self.out, &digits, &asked, &facts);
            }
            _ => meta::line(&mut self.out, code, &asked, &facts),
        }
    }

    /// An item; `made` when it was made by this request.
    fn meta_hit(&mut self, reply: &MetaReply, item: &Item, made: bool) {
        let ttl_s = seconds(item.ttl_s);
        let key = self.pending.text(reply.key);
        let MetaKind::Get {
            with_value,
            compare,
            recache_s,
            touched,
            ..
        } = reply.kind
        else {
            let size = key.len() + item.value.len();
            return meta::debug(&mut self.out, key, ttl_s, item.cas, size);
        };
        self.hit(!made, touched);
        self.note_item(item.value.len());
        let container = &reply.store.declared().name;
        let name = self.pending.text(reply.name);
        let expires_soon = recache_s.is_some_and(|limit| (0..limit).contains(&ttl_s));
        let won = made || (expires_soon && self.house.turns.take(container, name, item.ttl_s));
        let facts = Facts {
            size: Some(item.value.len()),
            client_flags: Some(item.flags),
            cas: Some(item.cas),
            ttl_s: Some(ttl_s),
            won,
            being_made: !won && self.house.turns.is_taken(container, name),
            ..Facts::default()
        };
        let asked = Asked {
            key: self.pending.text(reply.key),
            base64: reply.base64,
            flags: self.pending.flags(reply.flags),
        };
        match with_value && compare != Some(item.cas) {
            true => meta::value(&mut self.out, &item.value, &asked, &facts),
            false => meta::line(&mut self.out, Code::Hd, &asked, &facts),
        }
    }
}

/// As replies have it: -1 for ever.
fn seconds(ttl_s: Option<u64>) -> i64 {
    ttl_s.map_or(-1, |ttl| i64::try_from(ttl).unwrap_or(i64::MAX))
}

/// What a meta request counts as.
fn verb_of(kind: MetaKind) -> Option<Verb> {
    match kind {
        MetaKind::Delete => Some(Verb::Delete),
        MetaKind::Count { down, .. } => Some(Verb::Count { down }),
        MetaKind::Store { .. } | MetaKind::Get { .. } | MetaKind::Debug => None,
    }
}
