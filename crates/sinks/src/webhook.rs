//! Webhooks: batches of events, posted as lines of JSON and signed.
//!
//! `Heddle-Signature: t=SECONDS,v1=HEX` is the HMAC-SHA256 of `SECONDS.BODY` under the sink's secret. `Idempotency-Key`
//! is the same when the same events are posted again as one batch.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::http::{Answer, Poster, Url, trust};
use crate::message::Message;
use crate::spec::Spec;
use crate::undelivered::Undelivered;

/// Of an answer's body, for people.
const SAID_MAX: usize = 200;

/// Posts to one URL.
pub struct Webhook {
    sink: String,
    url: Url,
    secret: String,
    ca: String,
    /// Made with the first batch: certificates are read then.
    poster: Option<Poster>,
}

impl Webhook {
    pub(crate) fn new(sink: &str, url: Url, spec: &Spec) -> Webhook {
        Webhook {
            sink: sink.to_owned(),
            url,
            secret: spec.secret.clone(),
            ca: spec.ca.clone(),
            poster: None,
        }
    }

    pub(crate) async fn deliver(&mut self, batch: &[Message]) -> Result<usize, Undelivered> {
        let Some(last) = batch.last() else {
            return Ok(0);
        };
        let body = lines(batch);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.unwrap_or_default().as_secs();
        let signature = signature(&self.secret, now_s, &body);
        let headers = [
            ("content-type", "application/x-ndjson".to_owned()),
            ("user-agent", "heddle".to_owned()),
            ("heddle-sink", self.sink.clone()),
            ("heddle-token", last.token.clone()),
            ("heddle-signature", format!("t={now_s},v1={signature}")),
            ("idempotency-key", key(batch)),
        ];
        let bytes = body.len();
        let poster = match &mut self.poster {
            Some(poster) => poster,
            None => {
                let trust = match self.url.is_secure {
                    true => Some(trust(&self.ca)?),
                    false => None,
                };
                self.poster.insert(Poster::new(self.url.clone(), trust))
            }
        };
        let answer = poster.post(&headers, body).await?;
        judge(&answer).map(|()| bytes)
    }
}

/// What an answer means.
fn judge(answer: &Answer) -> Result<(), Undelivered> {
    let said = String::from_utf8_lossy(&answer.body);
    let said: String = said.trim().chars().take(SAID_MAX).collect();
    let text = format!("the answer was {}: {said}", answer.status);
    match answer.status {
        200..=299 => Ok(()),
        // About the place, the sender or the moment, not about these events.
        401 | 403 | 404 | 407 | 408 | 410 | 421 | 425 | 426 | 429 => {
            Err(Undelivered::Later(text, answer.retry_after()))
        }
        400..=499 => Err(Undelivered::Refused(text)),
        _ => Err(Undelivered::Later(text, answer.retry_after())),
    }
}

/// The events as lines.
pub(crate) fn lines(batch: &[Message]) -> Vec<u8> {
    let bytes = batch.iter().map(|it| it.line.len() + 1).sum();
    let mut body = Vec::with_capacity(bytes);
    for message in batch {
        body.extend_from_slice(&message.line);
        body.push(b'\n');
    }
    body
}

/// Names a batch by the ids of its events.
fn key(batch: &[Message]) -> String {
    let mut digest = Sha256::new();
    for message in batch {
        digest.update(&message.id);
        digest.update(b"\n");
    }
    hex::encode(&digest.finalize()[..16])
}

/// The signature of a body that is sent at this second: what stands behind `v1=`.
pub fn signature(secret: &str, now_s: u64, body: &[u8]) -> String {
    // Any length of a key will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{now_s}.").as_bytes());
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::body::Bytes;
    use hyper::header::HeaderMap;

    use super::*;

    #[test]
    fn bodies_are_signed_as_anybody_can_verify() {
        // printf '1.{}' | openssl dgst -sha256 -hmac key
        assert_eq!(
            signature("key", 1, b"{}"),
            "1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224"
        );
    }

    #[test]
    fn what_is_about_the_events_is_refused_and_the_rest_comes_later() {
        let judge = |status: u16| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", "7".parse().expect("a value"));
            judge(&Answer {
                status,
                headers,
                body: Bytes::from_static(b" why \n"),
            })
        };
        assert_eq!(judge(204), Ok(()));
        for status in [400, 409, 413, 422] {
            let refused = judge(status);
            assert!(matches!(refused, Err(Undelivered::Refused(_))), "{status}");
        }
        for status in [301, 401, 404, 429, 500, 503] {
            let said = format!("the answer was {status}: why");
            let later = Undelivered::Later(said, Some(Duration::from_secs(7)));
            assert_eq!(judge(status), Err(later));
        }
    }
}
