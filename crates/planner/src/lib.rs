//! Statements on sharded tables: which shards they need, and how their parts are put together.
//!
//! Job: read a statement once per shape, and tell for each sharded table that it names which
//! literals bound the table's shard key ([`keys`]), and whether what one shard answers is complete by
//! itself; and put the rows of several shards together ([`merge`]).
//!
//! Invariants: a set of shards never lacks one that has a row of the answer; what is not understood
//! bounds nothing. The text that the servers get is never made from the parsed statement, whose
//! grammar is not theirs.
//!
//! Must not know: sockets, tasks, sessions, what the servers hold. It runs off the hot path: its
//! product is kept by digest, and names literals by where they stand.

pub mod advise;
mod analysis;
mod answer;
pub mod belongs;
mod broadcast;
mod by_keys;
pub mod catalog;
mod columns;
pub mod define;
mod depth;
mod fold;
mod functions;
mod gather;
pub mod keys;
pub mod load;
pub mod merge;
mod parse;
pub mod place;
mod push;
mod read;
mod shards;
pub mod sieve;
mod text;
mod tiers;
mod values;
pub mod views;

pub use analysis::{Analysis, Move, Reference, Unread, Writes};
pub use answer::{
    Answer, Asked, Changing, Division, Estimate, Finish, Fragment, Goes, Load, Merging, Order,
    Part, Passed, Reduced, Reduction, Scratch, Sending, Source, Tier, Unanswered, Volume, Written,
};
pub use broadcast::{Ran, Seen, Sizes, by_broadcast, every_broadcast};
pub use by_keys::{ByKeys, KeyPart, Target, To, by_keys, orders_by_place};
pub use catalog::{Catalog, Kind};
pub use columns::{FIELD_END, ROW_END, put_field};
pub use depth::STACK_BYTES;
pub use fold::{Call, Constant};
pub use gather::{asks_for_sizes, order_by_size, to_change};
pub use read::read;
pub use shards::groups_of;
pub use tiers::answer;
pub use values::{Scalar, SessionValue, scalars, session_values, with_scalars, with_values};
