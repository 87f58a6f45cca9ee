//! Sharded and global tables: what the servers say of them, and what the commands of `sharding` need to know.
//!
//! Job: [`layout`] puts the declarations together with the tables' columns for the snapshot; `reading` fetches the
//! columns whenever they are [`wanted`], `measuring` how many rows there are; `accept` and `global` look at the rows of tables that are to be declared.
//!
//! Must not know: how parts of a map move.

pub(crate) mod accept;
mod global;
pub(crate) mod key;
pub(crate) mod layout;
mod measuring;
pub(crate) mod named;
mod reading;
pub(crate) mod wanted;

use std::sync::Arc;

use crate::context::Context;
use crate::links::Links;

/// Asks the groups about sharded tables: their definitions, their rows, where they lie.
pub(crate) struct ShardedTables {
    context: Arc<Context>,
    links: Arc<Links>,
    /// A reading that began earlier must not end later.
    reading: tokio::sync::Mutex<()>,
}

impl ShardedTables {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> ShardedTables {
        ShardedTables {
            context: Arc::clone(context),
            links: Arc::clone(links),
            reading: tokio::sync::Mutex::default(),
        }
    }
}
