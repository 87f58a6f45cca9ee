//! The change stream packed by zstd, for who accepts it: one frame, flushed behind each piece of lines.

use std::io::Write;

use axum::http::{HeaderMap, header};
use zstd::stream::write::Encoder;

/// The fastest: each stream has an encoder of its own, which keeps less memory so.
const LEVEL: i32 = 1;

/// The client accepts zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted;

/// What the client accepts.
pub(super) fn wanted(headers: &HeaderMap) -> Option<Accepted> {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let is_zstd = |coding: &str| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = weight.trim().trim_start_matches("q=").parse() == Ok(0.0);
        name.trim().eq_ignore_ascii_case("zstd") && !is_refused
    };
    codings.any(is_zstd).then_some(Accepted)
}

/// Packs one answer.
pub(super) struct Packer(Encoder<'static, Vec<u8>>);

impl Packer {
    /// `None` where there is no memory for it.
    pub(super) fn new(_: Accepted) -> Option<Packer> {
        Encoder::new(Vec::new(), LEVEL).ok().map(Packer)
    }

    /// So that the client can read all of it at once; `None` when it cannot be packed.
    pub(super) fn pack(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.write_all(bytes).ok()?;
        self.0.flush().ok()?;
        Some(std::mem::take(self.0.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::http::HeaderValue;
    use zstd::stream::read::Decoder;

    use super::*;

    #[test]
    fn each_piece_can_be_read_when_it_comes() {
        let mut packer = Packer::new(Accepted).expect("there is memory");
        let mut packed = Vec::new();
        for piece in ["one\n", "two\n"] {
            packed.extend(packer.pack(piece.as_bytes()).expect("it can be packed"));
            let mut text = vec![0; piece.len()];
            let mut decoder = Decoder::new(&*packed).expect("a decoder");
            decoder.read_exact(&mut text).expect("all of it");
        }
        let mut decoder = Decoder::new(&*packed).expect("a decoder");
        let mut text = [0; 8];
        decoder.read_exact(&mut text).expect("all of it");
        assert_eq!(&text, b"one\ntwo\n");
    }

    #[test]
    fn the_client_says_what_it_accepts() {
        let accepted = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            wanted(&headers).is_some()
        };
        assert!(accepted("zstd") && accepted("gzip, ZSTD;q=0.5"));
        assert!(!accepted("gzip, br") && !accepted("zstd;q=0") && !accepted("x-zstd"));
        assert_eq!(wanted(&HeaderMap::new()), None);
    }
}
