//! The plan of a digest's example: a core explains it by Heddle's own account, and runs nothing of it.

use std::sync::mpsc;
use std::time::Duration;

use reactor::Dealer;
use session::{Internal, Message, Own, Visit};
use statistics::{Row, TEXT_BYTES_MAX};

/// EXPLAIN takes no longer; what is under way then is given up with its connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lines of a plan. Waits for a server.
///
/// # Errors
/// There is no example, it does not surely read, or a server refused; for people.
pub(super) fn of(dealer: &Dealer<Message>, own: &Own, row: &Row) -> Result<Vec<String>, String> {
    let Some(example) = &row.example else {
        return Err(
            "there is no text with literals; set digest_examples = on, and `digest reset`"
                .to_owned(),
        );
    };
    if example.len() >= TEXT_BYTES_MAX {
        return Err(format!("its text was cut at {TEXT_BYTES_MAX} bytes"));
    }
    let (tell, told) = mpsc::channel();
    let (own, database, text) = (own.clone(), row.database.clone(), example.clone());
    let visit = Visit::new(move |core| {
        reactor::spawn(async move {
            let mut internal = Internal::open(&core, &own);
            let explained = internal.explain(&database, &text);
            let explained = reactor::timeout(PATIENCE, explained).await;
            // Nobody may wait any more.
            let _ = tell.send(explained);
        })
        .detach();
    });
    dealer.send(0, Message::Visit(visit));
    match told.recv_timeout(2 * PATIENCE) {
        Ok(Some(explained)) => explained,
        Ok(None) => Err(format!(
            "no server explained it in {} s",
            PATIENCE.as_secs()
        )),
        Err(_) => Err("the router ends, or is too busy".to_owned()),
    }
}
