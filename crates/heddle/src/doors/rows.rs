//! The rows that the HTTP door serves: commands of its requests on a core's containers.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use door_http::{Act, Column, Only, Rows, Told, Wanted};
use futures_util::FutureExt;
use kv::{Change, Expiry, Kv, Mode, Op, Outcome, Store};
use reactor::Dealer;
use session::{Message, Own, Visit};
use tokio::sync::oneshot;

/// A way to the cores of the data plane.
pub struct RowsOnCores {
    dealer: Dealer<Message>,
    own: Own,
    next: AtomicUsize,
}

impl RowsOnCores {
    /// Rows as this account sees them.
    pub fn new(dealer: Dealer<Message>, own: Own) -> RowsOnCores {
        RowsOnCores {
            dealer,
            own,
            next: AtomicUsize::new(0),
        }
    }
}

impl Rows for RowsOnCores {
    fn ask(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Told> + Send>> {
        let (tell, told) = oneshot::channel();
        let own = self.own.clone();
        let visit = Visit::new(move |core| {
            let kv = Kv::on(&core, &own);
            reactor::spawn(async move {
                let done = match kv {
                    Some(kv) => carry_out(&kv, wanted).await,
                    None => refused(false, "this core has no room for containers"),
                };
                // Nobody may wait any more.
                let _ = tell.send(done);
            })
            .detach();
        });
        // One key of one client is seldom asked for twice at once: any core does.
        let core = self.next.fetch_add(1, Ordering::Relaxed) % self.dealer.cores().max(1);
        self.dealer.send(core, Message::Visit(visit));
        told.map(|told| told.unwrap_or_else(|_| refused(false, "the router ends")))
            .boxed()
    }
}

fn refused(by_client: bool, why: &str) -> Told {
    Told::Refused {
        by_client,
        why: why.to_owned(),
    }
}

async fn carry_out(kv: &Kv, wanted: Wanted) -> Told {
    let Some(store) = kv.container(Some(&wanted.container)) else {
        return Told::NoContainer;
    };
    let only_new = matches!(
        wanted.act,
        Act::Write {
            only: Only::New | Only::There,
            ..
        }
    );
    let conditional = matches!(
        wanted.act,
        Act::Write {
            only: Only::Cas(_),
            ..
        } | Act::Delete { cas: Some(_) }
    );
    let change = match change(&store, wanted.act) {
        Ok(change) => change,
        Err(why) => return refused(true, &why),
    };
    let key = wanted.key.into();
    match store.submit(Op { key, change }).await {
        Outcome::Row {
            parts,
            integers,
            cas,
            ttl_s,
        } => {
            let names = store.declared().values.iter();
            let each = names.zip(parts).zip(integers);
            let columns = each.map(|((name, value), number)| Column {
                name: name.clone(),
                value,
                number,
            });
            Told::Row {
                columns: columns.collect(),
                cas,
                ttl_s,
            }
        }
        Outcome::Stored { cas } => Told::Written { cas },
        Outcome::Deleted => Told::Deleted,
        Outcome::NotFound if conditional => Told::Condition,
        Outcome::Exists => Told::Condition,
        Outcome::NotStored if only_new => Told::Condition,
        Outcome::NotStored => Told::Constraint,
        Outcome::Refused(refusal) => refused(refusal.by_client, &refusal.text),
        _ => Told::NotThere,
    }
}

fn change(store: &Store, act: Act) -> Result<Change, String> {
    let (mut columns, only, ttl_s) = match act {
        Act::Read => return Ok(Change::Read),
        Act::Delete { cas } => return Ok(Change::Delete { cas }),
        Act::Write {
            columns,
            only,
            ttl_s,
        } => (columns, only, ttl_s),
    };
    let declared = store.declared();
    let names = declared.values.iter();
    let parts: Vec<_> = names.map(|name| columns.remove(name).flatten()).collect();
    if let Some((name, _)) = columns.first_key_value() {
        return Err(format!(
            "the container has no column {name}, but {}",
            declared.values.join(", ")
        ));
    }
    let bytes: usize = parts.iter().flatten().map(Vec::len).sum();
    if bytes > declared.value_bytes_max as usize {
        return Err(format!(
            "the row is larger than the container allows, {} bytes",
            declared.value_bytes_max
        ));
    }
    let (mode, cas) = match only {
        Only::Always => (Mode::Set, None),
        Only::New => (Mode::Add, None),
        Only::There => (Mode::Replace, None),
        Only::Cas(cas) => (Mode::Set, Some(cas)),
    };
    Ok(Change::Write {
        parts: parts.into(),
        mode,
        expiry: ttl_s.map_or(Expiry::Never, Expiry::After),
        cas,
    })
}
