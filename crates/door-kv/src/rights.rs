//! What a client that logged in may do with the containers: what the rights of its account on their
//! tables are. They are asked for at its login, and anew when the accounts have changed.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use farm::Container;
use kv::{Allowed, Change, Kv, Refusal};
use session::{Admitted, Core};

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Read,
    Write,
    Delete,
}

impl Need {
    pub fn of(change: &Change) -> Need {
        match change.plain() {
            Change::Get | Change::Read => Need::Read,
            Change::Delete { .. } => Need::Delete,
            Change::GetAndTouch(_)
            | Change::Touch(_)
            | Change::Store { .. }
            | Change::Write { .. }
            | Change::Count { .. }
            | Change::Stamped { .. } => Need::Write,
        }
    }
}

/// The rights of one client.
pub(crate) struct Rights(HashMap<String, (Arc<Container>, Allowed)>);

impl Rights {
    /// Asks the servers, in the name of who was admitted.
    pub async fn of(core: &Rc<Core>, kv: &Kv, admitted: &Admitted) -> Rights {
        let containers = kv.containers();
        let mut rights = HashMap::with_capacity(containers.len());
        let mut internal = admitted.internal(core);
        for container in containers {
            let asked = Allowed::ask(&mut internal, &container).await;
            let allowed = asked.unwrap_or_else(|lost| Allowed {
                read: false,
                write: false,
                delete: false,
                unknown: Some(lost.0),
            });
            rights.insert(container.name.clone(), (container, allowed));
        }
        Rights(rights)
    }

    /// Whether the client may do this with the container as it is declared now.
    ///
    /// # Errors
    /// What it hears that it may not.
    pub fn check(&self, container: &Arc<Container>, need: Need) -> Result<(), Refusal> {
        let name = &container.name;
        let Some((_, allowed)) = self.0.get(name).filter(|(then, _)| then == container) else {
            let text = format!("container {name} is newer than this login; connect again");
            return Err(Refusal::client(text));
        };
        let may = match need {
            Need::Read => allowed.read,
            Need::Write => allowed.write,
            Need::Delete => allowed.delete,
        };
        match (may, &allowed.unknown) {
            (true, _) => Ok(()),
            (false, None) => Err(Refusal::client(format!(
                "the account lacks the right for this on container {name}"
            ))),
            (false, Some(why)) => {
                let why = why.replace(|c: char| c.is_control(), " ");
                Err(Refusal::server(format!(
                    "the account's rights on container {name} are not known: {why}; connect again"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_the_login_and_of_the_same_table() {
        let container = |table: &str| Arc::new(Container::new("c", "d", table, "k", &["v"]));
        let allowed = Allowed {
            delete: false,
            ..Allowed::all()
        };
        let known = ("c".to_owned(), (container("t"), allowed));
        let rights = Rights(HashMap::from([known]));
        assert_eq!(rights.check(&container("t"), Need::Write), Ok(()));
        let denied = rights.check(&container("t"), Need::Delete);
        assert!(denied.is_err_and(|why| why.by_client));
        assert!(rights.check(&container("other"), Need::Read).is_err());
    }
}
