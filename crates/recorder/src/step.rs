//! The steps: names, numbers, and which value stands in which slot of a record.
//!
//! A number is never given to another step, and no step changes its slots: dumps outlive releases.

use crate::codes::{Awaited, End, Moment, Question, Reason, Retry, Told};
use crate::field::{Digest, Field, Group, Server, Value};

/// A step as a record has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    pub kind: u8,
    pub code: u8,
    pub a: u32,
    pub b: u64,
}

macro_rules! steps {
    ($(
        $(#[$doc:meta])*
        $number:literal $name:ident $word:literal {$($slot:ident $field:ident: $type:ty),*}
    )*) => {
        /// What a thread of a router did.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Step {$(
            $(#[$doc])*
            $name {$($field: $type),*}
        ),*}

        impl Step {
            // Where the step is known, so are its slots.
            #[inline(always)]
            // Some steps fill all slots.
            #[allow(clippy::needless_update)]
            pub(crate) fn slots(self) -> Slots {
                match self {$(
                    Step::$name {$($field),*} => Slots {
                        kind: $number,
                        $($slot: Field::bits($field) as _,)*
                        ..Slots::default()
                    },
                )*}
            }

            pub(crate) fn of(slots: Slots) -> Option<Step> {
                match slots.kind {
                    $($number => Some(Step::$name {
                        $($field: <$type as Field>::of(u64::from(slots.$slot))),*
                    }),)*
                    _ => None,
                }
            }

            /// The word that is shown.
            pub fn name(self) -> &'static str {
                match self {
                    $(Step::$name {..} => $word,)*
                }
            }

            /// Its values and what they are.
            pub fn values(self) -> Vec<(&'static str, Value)> {
                match self {$(
                    Step::$name {$($field),*} => vec![$((stringify!($field), $field.value())),*],
                )*}
            }

            /// One of each, for tests of what reads them.
            #[doc(hidden)]
            pub fn each() -> Vec<Step> {
                let of = |kind| Step::of(Slots { kind, code: 1, a: 7, b: 9 });
                [$($number),*].into_iter().filter_map(of).collect()
            }
        }
    };
}

steps! {
    /// A client was accepted.
    1 Accepted "accepted" {}
    /// It proved who it is.
    2 LoggedIn "logged_in" {}
    /// It may not come in.
    3 LoginRefused "login_refused" {code how: Option<End>, a error: u16}
    4 Ended "session_ended" {code how: Option<End>, a error: u16}
    /// A statement came, or a command that is none: then it has no digest.
    5 Statement "statement" {code command: u8, b digest: Digest}
    /// A statement was answered by a server or by the router. 0 is no error.
    6 Finished "finished" {a error: u16, b rows: u64}
    /// A server was chosen.
    7 Chosen "server_chosen" {code reason: Option<Reason>, a server: Server, b wait: bool}
    /// None may have it.
    8 NoServer "no_server" {a error: u16}
    /// The session has a connection; `held` where it had it before.
    9 Taken "connection_taken" {code held: bool, a server: Server, b connection: u32}
    10 GivenBack "connection_given_back" {a server: Server, b connection: u32}
    /// A new connection to a server.
    11 Opened "connection_opened" {a server: Server, b connection: u32}
    12 OpeningFailed "opening_failed" {a server: Server}
    /// The statement goes to its server.
    13 Sent "sent" {a server: Server, b connection: u32}
    /// The server's reply is complete. 0 is no error.
    14 Answered "answered" {a server: Server, b error: u16}
    15 Lost "connection_lost" {code forwarded: bool, a server: Server, b connection: u32}
    16 WaitBegins "wait_begins" {code what: Option<Awaited>, a server: Server}
    17 WaitEnds "wait_ends" {code what: Option<Awaited>, a server: Server, b came: bool}
    18 Retried "retried" {code why: Option<Retry>, a server: Server}
    /// The open transaction was lost on this server, and is done again on the primary that comes.
    19 ReplayBegins "replay_begins" {a server: Server}
    /// `done`: it stands where it stood.
    20 ReplayEnds "replay_ends" {b done: bool}
    /// A commit is acknowledged. `source` is MariaDB's server id, or the beginning of MySQL's server UUID.
    21 Committed "commit_acknowledged" {a source: u32, b number: u64}
    /// A moment of a distributed transaction, on one of its groups.
    22 Distributed "distributed_transaction" {code moment: Option<Moment>, a server: Server, b connection: u32}
    /// Somebody ends the session, or its statement.
    23 Killed "killed" {}
    40 ProbeFailed "probe_failed" {a server: Server}
    41 Failover "failover" {code told: Option<Told>, a server: Server, b group: Group}
    42 FailoverAsks "failover_asks" {code what: Option<Question>, a server: Server, b group: Group}
    43 FailoverAnswer "failover_answer" {code done: bool, b group: Group}
    /// A group's primary was published; server 0 is none.
    44 PrimaryPublished "primary_published" {a server: Server, b group: Group}
    /// The snapshot of the farm that is in force.
    45 SnapshotPublished "snapshot_published" {b epoch: u64}
    46 Leadership "leadership" {code leads: bool, b number: u64}
    60 Started "router_started" {}
    61 Stopping "router_stopping" {}
    /// A task of this thread panicked.
    62 Panicked "panicked" {}
    /// A core did not answer in time.
    63 CoreStalled "core_stalled" {}
}
