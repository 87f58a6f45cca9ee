//! What an error of the engine says about its server, in the words of the failover machine.

use engine::Error;
use machines::failover::{Failed, Fault};

/// The fault of a server at which a step, a probe or a look failed with this error.
pub(crate) fn failed(error: Error) -> Failed {
    let fault = match &error {
        Error::Refused { .. }
        | Error::Reply { .. }
        | Error::Replication { .. }
        | Error::Deposed { .. } => Fault::Said,
        Error::Timeout { .. } => Fault::Late,
        Error::Lost { .. } => Fault::Reset,
        Error::Connect {
            nobody_listens: true,
            ..
        } => Fault::Refused,
        // Somebody answers, but it is not the server.
        Error::Connect { .. } | Error::Certificate { .. } | Error::Stranger { .. } => Fault::Silent,
    };
    Failed {
        fault,
        text: error.to_string(),
    }
}

/// No answer came from the server, and nothing says that its process is gone: connections to it do not end by themselves.
pub(crate) fn is_silence(error: &Error) -> bool {
    matches!(
        error,
        Error::Timeout { .. }
            | Error::Connect {
                nobody_listens: false,
                ..
            }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_fault() {
        let server = || "h:1".to_owned();
        let connect = |nobody_listens| Error::Connect {
            server: server(),
            reason: "no".to_owned(),
            cure: "",
            nobody_listens,
        };
        let late = Error::Timeout {
            operation: "probe",
            server: server(),
            timeout_ms: 7,
        };
        let lost = Error::Lost {
            operation: "probe",
            server: server(),
            reason: "end of file".to_owned(),
        };
        let deposed = Error::Deposed {
            server: server(),
            number: 7,
        };
        assert!(is_silence(&late) && is_silence(&connect(false)));
        assert!(!is_silence(&lost) && !is_silence(&connect(true)));
        for (error, fault) in [
            (connect(true), Fault::Refused),
            // Somebody answers there, but it is not the server.
            (connect(false), Fault::Silent),
            (late, Fault::Late),
            (lost, Fault::Reset),
            (deposed, Fault::Said),
        ] {
            let text = error.to_string();
            assert_eq!(failed(error), Failed { fault, text });
        }
    }
}
