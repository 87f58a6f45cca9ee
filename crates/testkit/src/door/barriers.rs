//! The commit barriers of a farm without a control plane: held for one session at a time.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use engine::barriers::{self, Barrier, Taking};
use farm::Snapshot;
use farm::dist_txn::farm_number;
use session::{BarriersHeld, LetGo, Verified};
use tokio::sync::oneshot;

use crate::door::admin::{link, with_link};

/// As the control plane has it.
const HELD_MAX: Duration = Duration::from_millis(1000);

/// Generous: two cores run several servers and their clients.
const LIMIT_MS: u64 = 20_000;

/// Takes the commit barriers of all groups and holds them until they are let go; blocks.
pub(crate) fn hold(snapshot: &Snapshot, reply: BarriersHeld) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let primaries = snapshot.groups.iter().filter_map(|group| {
        let primary = group.primary()?;
        let address = format!("{}:{}", primary.host, primary.port);
        Some((group.number, address.parse::<SocketAddr>().ok()?))
    });
    let primaries: Vec<(u32, SocketAddr)> = primaries.collect();
    let farm = farm_number(&snapshot.farm_id);
    let Some(&(_, first)) = primaries.first() else {
        return reply(Err("no group".to_owned()));
    };
    with_link(first, async |_| {
        let mut held = Vec::new();
        for (group, address) in primaries {
            let mut link = Box::new(link(address).await);
            match barriers::take(&mut link, LIMIT_MS).await {
                Ok(Taking::Held) => held.push(Barrier {
                    group,
                    link,
                    lists: true,
                }),
                other => {
                    return reply(Err(format!(
                        "the commit barrier of group {group}: {other:?}"
                    )));
                }
            }
        }
        match barriers::settle(&mut held, farm, HELD_MAX, LIMIT_MS).await {
            Ok(settled) if settled.open.is_empty() => {}
            other => return reply(Err(format!("what is decided is not seen: {other:?}"))),
        }
        let (tell, told) = oneshot::channel::<Verified>();
        let let_go: LetGo = Box::new(move |verified| {
            let _ = tell.send(verified);
        });
        reply(Ok(let_go));
        let told = tokio::time::timeout(HELD_MAX, told).await;
        let mut whole = true;
        for barrier in &mut held {
            whole &= barriers::let_go(&mut barrier.link, LIMIT_MS).await.is_ok();
        }
        if let Ok(Ok(verified)) = told {
            verified(match whole {
                true => Ok(()),
                false => Err("a commit barrier was lost".to_owned()),
            });
        }
    });
}
