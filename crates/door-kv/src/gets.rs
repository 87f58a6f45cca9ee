//! The keys of a `get`: each is answered from the row cache at once, or becomes a command on its container.

use kv::{Change, Expiry, Recalled, Refusal};
use memcache_wire::{Get, Words, reply};

use crate::counts::count;
use crate::intake::{Exchange, NAMED, op, refused};
use crate::pending::Reply;
use crate::rights::Need;

/// A `get` whose keys are not all under way yet.
pub(crate) struct OpenGet {
    /// Where in the buffer the rest of its keys stands.
    at: usize,
    end: usize,
    with_cas: bool,
    touch: Option<i64>,
}

impl Exchange {
    pub fn begin_get(&mut self, get: &Get<'_>, inbox: &[u8], end: usize) {
        let line_end = match inbox[..end].ends_with(b"\r\n") {
            true => end - 2,
            false => end - 1,
        };
        self.open_get = Some(OpenGet {
            at: line_end - get.words().rest().len(),
            end: line_end,
            with_cas: get.with_cas,
            touch: get.touch,
        });
    }

    /// False when keys are left for which there is no room yet.
    pub fn go_on_with_get(&mut self, inbox: &[u8]) -> bool {
        let Some(open) = self.open_get.take() else {
            return true;
        };
        let mut words = Words::new(&inbox[open.at..open.end]);
        loop {
            if !self.has_room() {
                let at = open.end - words.rest().len();
                self.open_get = Some(OpenGet { at, ..open });
                return false;
            }
            let Some(word) = words.next() else {
                match self.pending.is_empty() {
                    true => self.end_get(),
                    false => self.pending.push(Reply::End),
                }
                return true;
            };
            self.get(word, open.with_cas, open.touch);
        }
    }

    fn get(&mut self, word: &[u8], with_cas: bool, touch: Option<i64>) {
        count(&self.counts().cmd_get);
        if let Some(name) = word.strip_prefix(NAMED)
            && self.key_of(name).is_none()
        {
            return self.choose(word, name, with_cas);
        }
        let need = match touch {
            None => Need::Read,
            Some(_) => Need::Write,
        };
        let (store, key) = match self.place(word, need) {
            Ok(placed) => placed,
            Err(refusal) => return self.refuse_get(refusal),
        };
        self.item_bytes = self.item_bytes.max(store.item_bytes());
        let ticket = match touch {
            None => match store.recall_in(&mut self.sight, key) {
                Some(item) => return self.recalled(word, with_cas, item),
                None => store.submit_to_servers(op(key, Change::Get)),
            },
            Some(expiry) => store.submit(op(key, Change::GetAndTouch(Expiry::from_wire(expiry)))),
        };
        self.order.read(key);
        let key = self.pending.keep(word);
        self.pending.push(Reply::Value {
            ticket,
            key,
            with_cas,
            touched: touch.is_some(),
        });
    }

    /// An item that nothing is to be waited for: what has its turn is written at once.
    fn recalled(&mut self, word: &[u8], with_cas: bool, item: Recalled) {
        if self.pending.is_empty() {
            return self.write_item(word, with_cas, &item);
        }
        let key = self.pending.keep(word);
        self.pending.push(Reply::Recalled {
            item,
            key,
            with_cas,
        });
    }

    fn refuse_get(&mut self, refusal: Refusal) {
        let ticket = refused(refusal);
        let key = self.pending.keep(b"");
        self.pending.push(Reply::Value {
            ticket,
            key,
            with_cas: false,
            touched: false,
        });
    }

    /// `get @@name`: the client's requests are for this container from now on. The value is its table.
    fn choose(&mut self, word: &[u8], name: &[u8], with_cas: bool) {
        let chosen = self.named(name).and_then(|store| {
            self.may(&store, Need::Read)?;
            Ok(store)
        });
        match chosen {
            Ok(store) => {
                let declared = store.declared();
                let table = format!("{}/{}", declared.database, declared.table);
                self.remember(name, &store);
                let mut text = Vec::new();
                let cas = with_cas.then_some(0);
                reply::value(&mut text, word, 0, table.as_bytes(), cas);
                self.pending.push(Reply::Text(text));
            }
            Err(refusal) => self.refuse_get(refusal),
        }
    }
}
