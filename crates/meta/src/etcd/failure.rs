//! What a member's error means: another member may do better, or the request itself is refused.

use std::error::Error as _;

use super::api::Failure;
use crate::Error;

/// How to go on after an error.
pub(super) enum Verdict {
    /// This member cannot answer; another may, or this one later.
    Elsewhere(String),
    /// As `Elsewhere`, after the connection is made anew: it was let in by a token that is void.
    Reconnect(String),
    /// Every member would say the same.
    Refused(Error),
}

/// The numbers of gRPC's status codes that are looked at.
mod code {
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const NOT_FOUND: i32 = 5;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const OUT_OF_RANGE: i32 = 11;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const DATA_LOSS: i32 = 15;
    pub const UNAUTHENTICATED: i32 = 16;
}

pub(super) fn judge(failure: &Failure) -> Verdict {
    let status = match failure {
        Failure::Status(status) => status,
        Failure::LeaseLost => return Verdict::Refused(Error::LeaseLost),
        Failure::Unusable(error) => return Verdict::Elsewhere(innermost(error)),
    };
    let said = status.message().trim_start_matches("etcdserver: ");
    match status.code() as i32 {
        code::UNAUTHENTICATED => Verdict::Reconnect(said.to_owned()),
        code::INVALID_ARGUMENT if said.contains("auth store is old") => {
            Verdict::Reconnect(said.to_owned())
        }
        code::INVALID_ARGUMENT if said.contains("authentication") || said.contains("user name") => {
            refused_credentials(said)
        }
        code::INVALID_ARGUMENT if said.contains("too large") || said.contains("too many") => {
            Verdict::Refused(Error::TooLarge(said.to_owned()))
        }
        code::FAILED_PRECONDITION if said.contains("authentication is not enabled") => {
            refused_credentials("it has no accounts, since authentication is not enabled")
        }
        code::PERMISSION_DENIED => refused_credentials(said),
        code::NOT_FOUND if said.contains("lease") => Verdict::Refused(Error::LeaseLost),
        code::OUT_OF_RANGE if said.contains("compacted") => Verdict::Refused(Error::Gap),
        code::RESOURCE_EXHAUSTED if said.contains("space") => {
            Verdict::Refused(Error::Full(said.to_owned()))
        }
        code::RESOURCE_EXHAUSTED if said.contains("larger than max") => {
            Verdict::Refused(Error::TooLarge(said.to_owned()))
        }
        code::INVALID_ARGUMENT
        | code::NOT_FOUND
        | code::FAILED_PRECONDITION
        | code::OUT_OF_RANGE
        | code::UNIMPLEMENTED
        | code::DATA_LOSS => Verdict::Refused(other(said)),
        _ => Verdict::Elsewhere(innermost_of(status.message(), status.source())),
    }
}

fn refused_credentials(said: &str) -> Verdict {
    Verdict::Refused(Error::Credentials(said.to_owned()))
}

pub(super) fn other(reason: &str) -> Error {
    Error::Etcd(reason.to_owned())
}

/// A key or value that Heddle did not write.
pub(super) fn foreign(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::Etcd(format!(
        "the key {key} holds no text, so Heddle did not write it"
    ))
}

/// The innermost cause, since what wraps it says only «transport error».
fn innermost(error: &tonic::transport::Error) -> String {
    innermost_of(&error.to_string(), error.source())
}

fn innermost_of(said: &str, mut cause: Option<&(dyn std::error::Error + 'static)>) -> String {
    let mut innermost = None;
    while let Some(error) = cause {
        innermost = Some(error.to_string());
        cause = error.source();
    }
    innermost.unwrap_or_else(|| said.to_owned())
}

/// What to do about a cluster that no try could reach.
pub(super) fn cure(reason: &str) -> &'static str {
    let reason = reason.to_ascii_lowercase();
    let is_tls = ["certificate", "tls", "handshake", "corrupt message"];
    if is_tls.iter().any(|word| reason.contains(word)) {
        return "check `etcd_ca`, `etcd_certificate` and `etcd_key`, and that the URLs begin with \
                https:// exactly where etcd speaks TLS";
    }
    "check that most of its members run, and that `etcd` names their client URLs"
}
