//! Words that steps have as numbers. A number is never given to another word: dumps outlive releases.

/// Declares words with their numbers; 0 is no word.
macro_rules! codes {
    ($($(#[$doc:meta])* $type:ident { $($number:literal $name:ident $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $type { $($name = $number),* }

        impl $type {
            /// Itself.
            pub fn word(self) -> &'static str {
                match self {
                    $($type::$name => $word),*
                }
            }

            /// The word of a number; another release may have had more.
            pub(crate) fn word_of(number: u64) -> Option<&'static str> {
                match number {
                    $($number => Some($word),)*
                    _ => None,
                }
            }

            pub(crate) fn of_number(number: u64) -> Option<$type> {
                match number {
                    $($number => Some($type::$name),)*
                    _ => None,
                }
            }
        }

        impl crate::field::Field for Option<$type> {
            fn bits(self) -> u64 {
                self.map_or(0, |word| word as u64)
            }

            fn of(bits: u64) -> Option<$type> {
                $type::of_number(bits)
            }

            fn value(self) -> crate::field::Value {
                let word = $type::word_of(self.bits());
                crate::field::Value::Word(word.unwrap_or("unknown"))
            }
        }
    )*};
}

codes! {
    /// Why a statement went to its server.
    Reason {
        1 Held "held", 2 Hint "hint", 3 Read "read", 4 Rule "rule", 5 Strong "strong",
        6 NoAutocommit "no_autocommit", 7 TooOld "too_old", 8 NoReplica "no_replica",
        9 NotARead "not_a_read",
    }
    /// How a session ended.
    End {
        1 Quit "quit", 2 Gone "client_gone", 3 Refused "refused", 4 TornResult "torn_result",
        5 Killed "killed",
    }
    /// What a session waited for.
    Awaited {
        1 Connection "connection", 2 Position "position", 3 Primary "primary", 4 Acknowledgement "acknowledgement",
        5 Server "server",
    }
    /// Why a statement was sent again.
    Retry {
        1 WritesOnReplica "writes_on_replica", 2 Transient "transient_error", 3 PrepareAnew "prepare_anew",
        4 ReadOnly "primary_is_read_only", 5 Lost "connection_lost", 6 Refused "connection_refused",
    }
    /// A moment of a distributed transaction.
    Moment {
        1 Enlisted "branch_began", 2 Prepare "prepare", 3 Prepared "prepared", 4 Decide "decide", 5 Decided "decided",
        6 Commit "commit_branch", 7 Committed "branch_committed", 8 Undo "roll_back", 9 Undone "rolled_back",
        10 Refused "refused", 11 Unknown "answer_lost",
    }
    /// What the machine of a failover tells, in the words of its events.
    Told {
        1 Suspected "primary_suspected", 2 Cleared "primary_cleared", 3 Lost "primary_lost",
        4 Unreachable "primary_unreachable", 5 Waiting "failover_waits", 6 Lossy "failover_lossy",
        7 Promoted "server_promoted", 8 Restored "primary_restored", 9 Demoted "server_demoted",
        10 StepFailed "failover_step_failed", 11 ReplicaLost "replica_lost",
    }
    /// What a change of primary asks for.
    Question {
        1 Confirm "confirm_loss", 2 Cut "cut_off", 3 Fence "fence", 4 Halt "stop_receiving", 5 Look "position",
        6 Reach "apply_received", 7 Lead "lead", 8 Open "take_writes", 9 Follow "follow", 10 Pause "pause_clients",
        11 Close "read_only", 12 Record "record", 13 Point "point",
    }
}
