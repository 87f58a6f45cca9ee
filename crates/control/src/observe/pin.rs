//! The key that a server is known by where certificates are not verified: trust on first use.
//!
//! The farm keeps the key of the first certificate that a server shows. From then on the server must prove
//! that it holds this key. A server that does may be given passwords; any other is refused. MariaDB servers
//! are not pinned: they make a new certificate at each start, and their plugins ask for proofs only.

use engine::{Link, LinkTls};
use farm::{Engine, ServerKey};

use crate::observe::Probes;
use catalog::command::CommandError;
use catalog::event::Event;
use catalog::record::ServerRecord;

impl Probes {
    /// The key to know a server by that has let Heddle in on this link.
    pub(crate) fn pin_of(&self, link: &Link, engine: Engine) -> Option<ServerKey> {
        let is_believed = self.context.settings().credentials.tls == LinkTls::Preferred;
        link.key()
            .filter(|_| is_believed && engine == Engine::MySql)
    }

    /// Lets the farm know a member by its key from now on, if it knows none yet: members of a farm that
    /// was made before keys were kept.
    pub(crate) async fn pin(&self, id: u32, record: &ServerRecord, link: &Link) {
        if record.certificate.is_some() {
            return;
        }
        let Some(lead) = self.context.leadership.lead() else {
            return;
        };
        let Some(key) = self.pin_of(link, record.engine) else {
            return;
        };
        let known = catalog::server_key::text(&key);
        let edit = |server: &mut ServerRecord| match server.certificate {
            None => {
                server.certificate = Some(known.clone());
                Ok(())
            }
            Some(_) => Err(CommandError::Stale),
        };
        // The next probe tries again.
        if self.context.edit_server(&lead, id, edit).await.is_ok() {
            let address = record.address();
            let detail = format!("{address} is known by the key {known} from now on");
            let event = Event::now("certificate_pinned", &record.group, detail);
            self.context.happened(event.of(&record.uuid, address));
        }
    }

    /// Somebody answers in a member's place who does not hold its key.
    pub(crate) fn tell_of_stranger(&self, id: u32, error: &engine::Error) {
        let record = {
            let state = self.context.state();
            let kept = state.records.servers.get(&id);
            kept.map(|kept| kept.value.clone())
        };
        let Some(record) = record else { return };
        let event = Event::now("certificate_changed", &record.group, error.to_string());
        self.context
            .happened(event.of(&record.uuid, record.address()));
    }
}
