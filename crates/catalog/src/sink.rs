//! Sinks of the change stream, as the state store keeps them: `/sink/NAME` is what an operator wants, `/sink_progress/NAME`
//! up to where the target has it, `/sink_letter/NAME/ID` an event that the target refused. None of them is one of the
//! farm's [`Records`](crate::Records), which every router reads anew at each change.

use serde::{Deserialize, Serialize};
use sinks::Spec;

use crate::subscription::SubscriptionRecord;

pub const SINK: &str = "/sink/";
pub const SINK_PROGRESS: &str = "/sink_progress/";
pub const SINK_LETTER: &str = "/sink_letter/";

/// What a sink is. Each change of it begins the delivery anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkRecord {
    /// Which changes are delivered.
    pub of: SubscriptionRecord,
    pub spec: Spec,
    pub paused: bool,
    /// Grows with each `sink resume`.
    pub resumed: u64,
    /// Grows with each `sink resend`.
    pub resend: u64,
}

/// Up to where a target has its changes, and how the delivery goes. The first two fields are those of
/// [`AcknowledgedRecord`](crate::subscription::AcknowledgedRecord).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkProgress {
    /// A token of the change stream.
    pub token: String,
    pub at_ms: u64,
    /// Events since the sink was made.
    pub delivered: u64,
    /// Events that wait in letters for an operator.
    pub letters: u64,
    /// Why nothing is delivered now; empty while it goes well.
    pub error: String,
    /// Tries that failed since it went well.
    pub failures: u64,
    pub failing_since_ms: u64,
    /// The `resumed` of the record under which nothing is tried any more.
    pub stuck: Option<u64>,
    /// The `resend` of the record that was carried out.
    pub resent: u64,
}

/// An event that the target refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkLetter {
    /// The event's id.
    pub id: String,
    /// The stream's token behind it.
    pub token: String,
    pub at_ms: u64,
    /// What the target said.
    pub reason: String,
    /// The event as JSON; empty if it is too long to be kept.
    pub line: String,
}
