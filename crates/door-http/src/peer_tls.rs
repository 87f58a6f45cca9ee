//! The asking end of TLS between routers, and what it says when that fails.
//!
//! Invariant: an error says whether the question can have been carried out. The asked router reads nothing of
//! it before it has verified the certificate. So an alert about the certificate says that nothing was done; what
//! else ends TLS behind the handshake says nothing of the kind.
//!
//! Must not know: what is asked.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use channel::{CLOCK_ALLOWANCE, ClientConfig, ServerName};
use control::PeerError;
use control::peers::TLS_NAME;
use rustls::{AlertDescription as Alert, CertificateError, Error, InvalidMessage};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Inside TLS with another router of the farm, as its certificate has proved.
pub(crate) async fn enter(
    stream: TcpStream,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, PeerError> {
    let name = ServerName::try_from(TLS_NAME).expect("a host name");
    let entered = TlsConnector::from(config).connect(name, stream).await;
    entered.map_err(|error| {
        refusal(&error).unwrap_or_else(|| {
            PeerError::Unreached(format!("the connection ended while TLS began: {error}"))
        })
    })
}

/// What an error of TLS says of the peer; `None` of an error that the network has made.
fn refusal(error: &io::Error) -> Option<PeerError> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(PeerError::Strange(meaning(error)))
}

/// Whether the other end has said by an alert that it does not take the certificate that it was shown.
fn is_about_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    match error {
        Some(Error::AlertReceived(alert)) => {
            *alert == Alert::CertificateExpired || is_of_certificate(*alert)
        }
        _ => false,
    }
}

/// For people, with the cure.
fn meaning(error: &Error) -> String {
    let hours = CLOCK_ALLOWANCE.as_secs() / 3600;
    match error {
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => format!(
            "its certificate is not valid at this router's time ({error}); the clocks of the farm's routers may \
             differ by {hours} hours: set them"
        ),
        Error::InvalidCertificate(_) => format!(
            "its certificate is not of this farm's authority ({error}); it serves another farm, or the \
             authority was replaced a moment ago: use the same state store on all routers, or ask again"
        ),
        Error::AlertReceived(Alert::CertificateExpired) => format!(
            "it says that this router's certificate is not valid at its time; the clocks of the farm's routers \
             may differ by {hours} hours: set them"
        ),
        Error::AlertReceived(alert) if is_of_certificate(*alert) => format!(
            "it does not take this router's certificate ({alert:?}); it serves another farm, or the authority \
             was replaced a moment ago: use the same state store on all routers, or ask again"
        ),
        Error::AlertReceived(alert) => {
            format!("it ended TLS ({alert:?}); run the same version of Heddle on all routers")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it speaks no TLS; look what listens at this address".to_owned()
        }
        other => format!("TLS failed: {other}"),
    }
}

/// Alerts by which the other end says that it does not take what it was shown.
fn is_of_certificate(alert: Alert) -> bool {
    matches!(
        alert,
        Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    )
}

/// Where a [`Heeding`] stream puts why the peer ended TLS.
pub(crate) type Refused = Arc<OnceLock<PeerError>>;

/// A stream that remembers why the peer ended TLS, whatever becomes of the error on its way: in TLS 1.3 the
/// asking end hears what the other one thinks of its certificate after it has begun to speak.
pub(crate) struct Heeding {
    stream: TlsStream<TcpStream>,
    refused: Refused,
}

impl Heeding {
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> (Heeding, Refused) {
        let refused = Refused::default();
        let kept = Arc::clone(&refused);
        (Heeding { stream, refused }, kept)
    }
}

impl AsyncRead for Heeding {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read
            && is_about_certificate(error)
            && let Some(refusal) = refusal(error)
        {
            // The first one is the reason.
            let _ = self.refused.set(refusal);
        }
        read
    }
}

impl AsyncWrite for Heeding {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_network_made_is_no_word_of_the_peer() {
        let cut = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(refusal(&cut), None);
        let told = Error::AlertReceived(Alert::UnknownCA);
        let told = refusal(&io::Error::new(io::ErrorKind::InvalidData, told));
        let Some(PeerError::Strange(why)) = told else {
            panic!("{told:?}");
        };
        assert!(why.contains("another farm"), "{why}");
    }

    #[test]
    fn only_a_refused_certificate_says_that_nothing_was_done() {
        let of = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        for refused in [
            Alert::CertificateExpired,
            Alert::UnknownCA,
            Alert::CertificateRequired,
        ] {
            assert!(is_about_certificate(&of(Error::AlertReceived(refused))));
        }
        for later in [
            Error::AlertReceived(Alert::BadRecordMac),
            Error::AlertReceived(Alert::InternalError),
            Error::DecryptError,
        ] {
            assert!(!is_about_certificate(&of(later)));
        }
        assert!(!is_about_certificate(
            &io::ErrorKind::ConnectionReset.into()
        ));
    }

    #[test]
    fn a_clock_that_is_off_is_told_from_a_stranger() {
        for of_time in [CertificateError::Expired, CertificateError::NotValidYet] {
            let why = meaning(&Error::InvalidCertificate(of_time));
            assert!(why.contains("clocks") && why.contains("24 hours"), "{why}");
        }
        let why = meaning(&Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert!(why.contains("another farm"), "{why}");
    }
}
