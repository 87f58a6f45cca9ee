//! A Galera node's word on itself and its cluster (the status variables `wsrep_…`).
//!
//! A node takes statements while it is Synced in a component that has the majority. One that lost
//! the others, or that sends its data to a newcomer, says so here before its clients would hear 1047.

use crate::error::Error;
use crate::link::{Link, text_at};

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The cluster's identity: equal on all its nodes.
    pub cluster: String,
    /// How many nodes see each other.
    pub size: u32,
    /// `Primary` in the component that has the majority.
    pub status: String,
    /// `Synced`, `Donor/Desynced`, `Joined`, `Initialized`, …
    pub state: String,
    /// The node takes statements.
    pub ready: bool,
}

impl Node {
    /// Why it takes no statements; `None` while it does.
    pub fn trouble(&self) -> Option<String> {
        if self.status != "Primary" {
            return Some(format!(
                "its component is {}: it does not see the majority of the cluster",
                self.status
            ));
        }
        if !self.ready || self.state != "Synced" {
            return Some(format!("its Galera state is {}", self.state));
        }
        None
    }
}

/// Asks a server about its cluster; `None` when it is no Galera node.
pub async fn node(link: &mut Link, timeout_ms: u64) -> Result<Option<Node>, Error> {
    const SQL: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid',\
         'wsrep_cluster_size','wsrep_cluster_status','wsrep_local_state_comment','wsrep_ready',\
         'wsrep_provider_name')";
    let rows = link.rows("ask for the cluster", SQL, timeout_ms).await?;
    let find = |name: &str| {
        let named = |row: &&mysql_async::Row| {
            text_at(row, 0).is_some_and(|found| found.eq_ignore_ascii_case(name))
        };
        rows.iter()
            .find(named)
            .and_then(|row| text_at(row, 1))
            .unwrap_or_default()
    };
    if find("wsrep_provider_name").is_empty() {
        return Ok(None);
    }
    Ok(Some(Node {
        cluster: find("wsrep_cluster_state_uuid"),
        size: find("wsrep_cluster_size").parse().unwrap_or(0),
        status: find("wsrep_cluster_status"),
        state: find("wsrep_local_state_comment"),
        ready: find("wsrep_ready") == "ON",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(status: &str, state: &str, ready: bool) -> Node {
        Node {
            cluster: "c".to_owned(),
            size: 3,
            status: status.to_owned(),
            state: state.to_owned(),
            ready,
        }
    }

    #[test]
    fn a_node_serves_while_it_is_synced_in_the_majority() {
        assert_eq!(node("Primary", "Synced", true).trouble(), None);
        let alone = node("non-Primary", "Initialized", false).trouble();
        assert!(alone.expect("trouble").contains("majority"));
        let donor = node("Primary", "Donor/Desynced", true).trouble();
        assert!(donor.expect("trouble").contains("Donor"));
    }
}
