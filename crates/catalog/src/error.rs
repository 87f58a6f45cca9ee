//! Why the control plane could not start.

/// Errors of opening a a control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading the farm: {0}")]
    Store(#[from] meta::Error),
    #[error(
        "the state store holds a value at {key} that this version cannot read ({reason}); start the \
         version of Heddle that wrote it, or restore the state file from a copy"
    )]
    Record { key: String, reason: String },
    #[error(
        "the state store was written by a newer Heddle (layout {0}, this one knows 1); start that \
         version, or restore the store from a copy made before the upgrade"
    )]
    NewerLayout(u64),
    #[error(
        "the state store holds something else at {0}, which Heddle did not write; give the farm an \
         `etcd_prefix` or a `state_dir` of its own"
    )]
    Foreign(String),
    #[error("the farm is not served from this store: {0}")]
    Moved(String),
    #[error("the store holds another farm, {0}; it is left as it is")]
    OtherFarm(String),
    #[error("the store holds no farm")]
    NoFarm,
    #[error(
        "routers of the farm use the store; stop them all (`router list` shows them; one that was \
         killed is forgotten after a few seconds)"
    )]
    InUse,
    #[error(
        "the farm has 255 routers already, and there is no place for more; stop one, or wait a few \
         seconds for one that died to be forgotten"
    )]
    NoSlot,
    #[error(
        "the state store holds at {key} what a newer Heddle wrote ({}); start that version here, \
         or one that is newer",
        newer(heddle, *format)
    )]
    Newer {
        key: String,
        heddle: String,
        format: u32,
    },
    #[error("{0}; mend it with a router that follows it, by `config set` or `config rollback`")]
    Configuration(String),
    #[error("cannot make a farm id from /dev/urandom: {0}")]
    Random(#[from] std::io::Error),
}

/// `Heddle 9.1.0, format 2; this is 0.1.0, which knows format 1`.
fn newer(heddle: &str, format: u32) -> String {
    let (ours, known) = (env!("CARGO_PKG_VERSION"), crate::configuration::FORMAT);
    format!("Heddle {heddle}, format {format}; this is {ours}, which knows format {known}")
}
