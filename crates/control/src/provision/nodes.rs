//! Galera groups: who may join one.
//!
//! The cluster keeps its data equal by itself, so nothing is set on a node and nothing is promoted:
//! a group records which nodes there are, and the probes say which of them serve.

use engine::galera;
use engine::{Link, Observation};
use farm::Status;

use crate::leadership::lead::Lead;
use crate::provision::Provision;
use crate::provision::admission::{Newcomer, record};
use catalog::command::CommandError;
use catalog::record::Records;

impl Provision {
    /// Adds a node of the group's cluster. Gives its UUID.
    pub(crate) async fn admit_node(
        &self,
        lead: &Lead,
        records: &Records,
        newcomer: &Newcomer,
        link: &mut Link,
        seen: Observation,
    ) -> Result<String, CommandError> {
        let address = link.address().to_owned();
        let refused = |why: String| Err(CommandError::Refused(why));
        let Some(node) = galera::node(link, newcomer.timeout_ms).await? else {
            return refused(format!(
                "server {address} is no Galera node, but group {} is of the kind galera; set \
                 wsrep_on and wsrep_provider in its configuration, or choose another group",
                newcomer.group
            ));
        };
        if let Some(trouble) = node.trouble() {
            return refused(format!("server {address} cannot join: {trouble}"));
        }
        for (_, member) in records.members(&newcomer.group) {
            let Ok(mut other) = self.links.reach(lead, member).await else {
                continue;
            };
            let theirs = galera::node(&mut other, newcomer.timeout_ms).await?;
            if let Some(theirs) = theirs.filter(|theirs| theirs.cluster != node.cluster) {
                return refused(format!(
                    "server {address} is a node of cluster {}, but {} is one of cluster {}; each \
                     cluster needs a group of its own",
                    node.cluster,
                    member.address(),
                    theirs.cluster
                ));
            }
        }
        let record = record(newcomer, link.version(), &seen, Status::Primary, None)?;
        let (id, transaction) = records.add_server(&record);
        self.probes.answered(id, seen);
        self.context
            .commit_as(lead, &newcomer.author, transaction)
            .await?;
        Ok(record.uuid)
    }
}
