//! Packets: a payload of up to 16 MB - 1 behind a header of its length and a sequence number.
//! A longer payload goes in several packets, of which the last is shorter than the maximum, and
//! empty if need be.

/// Bytes of a packet header: 3 of length, 1 of sequence number.
pub const HEADER_BYTES: usize = 4;

/// The longest payload of one packet; a packet of this length is continued by the next.
pub const PAYLOAD_BYTES_MAX: usize = 0xFF_FF_FF;

/// What stands before every payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes that follow the header.
    pub payload_bytes: usize,
    /// Counts the packets of one command and its reply, modulo 256.
    pub sequence: u8,
}

impl Header {
    /// Reads a header off the front of `bytes`; None when there are fewer than 4.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let [low, middle, high, sequence] = *bytes.first_chunk::<HEADER_BYTES>()?;
        let payload_bytes = u32::from_le_bytes([low, middle, high, 0]) as usize;
        Some(Header {
            payload_bytes,
            sequence,
        })
    }

    /// The 4 bytes of the header; `payload_bytes` must be at most [`PAYLOAD_BYTES_MAX`].
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        debug_assert!(
            self.payload_bytes <= PAYLOAD_BYTES_MAX,
            "longer payloads are split"
        );
        let [low, middle, high, _] = (self.payload_bytes as u32).to_le_bytes();
        [low, middle, high, self.sequence]
    }

    /// Whether the payload goes on in the next packet.
    pub fn is_continued(self) -> bool {
        self.payload_bytes == PAYLOAD_BYTES_MAX
    }
}

/// Appends `payload` as one or more whole packets. `sequence` is the number of the first and is
/// left at the number that comes next; it wraps.
pub fn write(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let mut left = payload;
    loop {
        let (chunk, tail) = left.split_at(left.len().min(PAYLOAD_BYTES_MAX));
        let header = Header {
            payload_bytes: chunk.len(),
            sequence: *sequence,
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(chunk);
        *sequence = sequence.wrapping_add(1);
        left = tail;
        // A payload that fills its last packet needs an empty one to end it.
        if chunk.len() < PAYLOAD_BYTES_MAX {
            return;
        }
    }
}

/// Appends the payload that `encode` appends, framed as by [`write()`], without a copy as long as it
/// fits one packet.
pub fn write_with(out: &mut Vec<u8>, sequence: &mut u8, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    encode(out);
    let body = start + HEADER_BYTES;
    let payload_bytes = out.len() - body;
    if payload_bytes < PAYLOAD_BYTES_MAX {
        let header = Header {
            payload_bytes,
            sequence: *sequence,
        };
        out[start..body].copy_from_slice(&header.encode());
        *sequence = sequence.wrapping_add(1);
    } else {
        let payload = out.split_off(body);
        out.truncate(start);
        write(out, sequence, &payload);
    }
}

/// The payload of packets that lie one behind the other; what is not whole is left out.
pub fn joined(packets: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(packets.len());
    let mut rest = packets;
    while let Some(header) = Header::parse(rest) {
        let end = (HEADER_BYTES + header.payload_bytes).min(rest.len());
        payload.extend_from_slice(&rest[HEADER_BYTES..end]);
        rest = &rest[end..];
    }
    payload
}

/// The payloads of packets that lie one behind the other, each as it is in its packet; what is not whole is left out.
pub fn payloads(mut packets: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let header = Header::parse(packets)?;
        let rest = packets.get(HEADER_BYTES..)?;
        let payload = rest.get(..header.payload_bytes)?;
        packets = &rest[header.payload_bytes..];
        Some(payload)
    })
}

/// Why a [`Joiner`] refused a packet. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The payload would be longer than the limit.
    #[error("payload over {bytes_max} bytes")]
    TooLarge {
        /// The limit that [`Joiner::new`] was given.
        bytes_max: usize,
    },
    /// The sequence number is not the one that follows.
    #[error("packet number {got} where {expected} was due")]
    OutOfOrder {
        /// The number that was due.
        expected: u8,
        /// The number that came.
        got: u8,
    },
    /// The bytes handed over are not as many as the header says.
    #[error("packet body of {got} bytes behind a header of {expected}")]
    Torn {
        /// The length in the header.
        expected: usize,
        /// The bytes handed over.
        got: usize,
    },
}

/// Puts the packets of one direction together to payloads and checks their order. A payload that
/// fits one packet is handed through without a copy.
#[derive(Debug)]
pub struct Joiner {
    bytes_max: usize,
    expected: u8,
    /// Whether the last packet was a full one, so that the next continues its payload.
    open: bool,
    /// What came of the payload so far; after a whole payload, that payload.
    joined: Vec<u8>,
}

impl Joiner {
    /// A joiner that takes payloads of up to `bytes_max` and expects sequence number 0 first.
    pub fn new(bytes_max: usize) -> Joiner {
        Joiner {
            bytes_max,
            expected: 0,
            open: false,
            joined: Vec::new(),
        }
    }

    /// Says which sequence number comes next: 0 before every command. Drops a half payload.
    pub fn expect(&mut self, sequence: u8) {
        self.expected = sequence;
        self.open = false;
        self.joined.clear();
    }

    /// The sequence number that is due; also the first number of the answer to a whole payload.
    pub fn expected(&self) -> u8 {
        self.expected
    }

    /// Changes the limit, for the payloads after this one too.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Whether a payload has begun and is not yet whole.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a packet with this header would be taken; asked before its body is read, so that
    /// an overlong payload costs no memory.
    pub fn check(&self, header: Header) -> Result<(), JoinError> {
        if header.sequence != self.expected {
            return Err(JoinError::OutOfOrder {
                expected: self.expected,
                got: header.sequence,
            });
        }
        let before = if self.open { self.joined.len() } else { 0 };
        if header.payload_bytes.saturating_add(before) > self.bytes_max {
            return Err(JoinError::TooLarge {
                bytes_max: self.bytes_max,
            });
        }
        Ok(())
    }

    /// Takes one packet; returns the payload once it is whole, None while more packets must come.
    /// After an error the joiner stands as before.
    pub fn push<'a>(
        &'a mut self,
        header: Header,
        bytes: &'a [u8],
    ) -> Result<Option<&'a [u8]>, JoinError> {
        if bytes.len() != header.payload_bytes {
            return Err(JoinError::Torn {
                expected: header.payload_bytes,
                got: bytes.len(),
            });
        }
        self.check(header)?;
        self.expected = self.expected.wrapping_add(1);
        if !self.open {
            self.joined.clear();
            if !header.is_continued() {
                return Ok(Some(bytes));
            }
        }
        self.joined.extend_from_slice(bytes);
        self.open = header.is_continued();
        Ok(if self.open { None } else { Some(&self.joined) })
    }

    /// Gives the memory of the last long payload back.
    pub fn shrink(&mut self) {
        if !self.open {
            self.joined = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds framed bytes to a fresh joiner and returns the payloads.
    fn join(mut bytes: &[u8], bytes_max: usize) -> Result<Vec<Vec<u8>>, JoinError> {
        let mut joiner = Joiner::new(bytes_max);
        let mut payloads = Vec::new();
        while let Some(header) = Header::parse(bytes) {
            let end = HEADER_BYTES + header.payload_bytes;
            if let Some(payload) = joiner.push(header, &bytes[HEADER_BYTES..end])? {
                payloads.push(payload.to_vec());
            }
            bytes = &bytes[end..];
        }
        assert!(bytes.is_empty());
        Ok(payloads)
    }

    #[test]
    fn payloads_around_16_mb_are_split_and_joined() {
        for (bytes, packets) in [
            (0, 1),
            (PAYLOAD_BYTES_MAX - 1, 1),
            (PAYLOAD_BYTES_MAX, 2),
            (PAYLOAD_BYTES_MAX + 1, 2),
            (2 * PAYLOAD_BYTES_MAX, 3),
        ] {
            let mut payload = vec![7; bytes];
            if let Some(last) = payload.last_mut() {
                *last = 9;
            }
            let (mut out, mut sequence) = (Vec::new(), 0);
            write(&mut out, &mut sequence, &payload);
            assert_eq!(usize::from(sequence), packets);
            assert_eq!(out.len(), bytes + packets * HEADER_BYTES);
            let (mut same, mut sequence) = (Vec::new(), 0);
            write_with(&mut same, &mut sequence, |out| {
                out.extend_from_slice(&payload)
            });
            assert!(same == out && usize::from(sequence) == packets);
            assert!(join(&out, usize::MAX) == Ok(vec![payload]));
        }
    }

    #[test]
    fn the_sequence_number_wraps() {
        let (mut out, mut sequence) = (Vec::new(), 255);
        write(&mut out, &mut sequence, b"x");
        assert_eq!((out.as_slice(), sequence), (&[1, 0, 0, 255, b'x'][..], 0));
        let mut joiner = Joiner::new(10);
        joiner.expect(255);
        assert_eq!(
            joiner.push(
                Header {
                    payload_bytes: 1,
                    sequence: 255
                },
                b"x"
            ),
            Ok(Some(&b"x"[..]))
        );
        assert_eq!(joiner.expected(), 0);
    }

    #[test]
    fn write_with_leaves_what_stood_before() {
        let (mut out, mut sequence) = (b"before".to_vec(), 3);
        write_with(&mut out, &mut sequence, |out| out.push(b'p'));
        assert_eq!(out, b"before\x01\0\0\x03p");
    }

    #[test]
    fn a_packet_out_of_order_is_refused() {
        let mut joiner = Joiner::new(100);
        let got = joiner.push(
            Header {
                payload_bytes: 0,
                sequence: 4,
            },
            b"",
        );
        assert_eq!(
            got,
            Err(JoinError::OutOfOrder {
                expected: 0,
                got: 4
            })
        );
    }

    #[test]
    fn the_limit_counts_the_whole_payload() {
        let mut joiner = Joiner::new(PAYLOAD_BYTES_MAX + 5);
        let full = vec![0; PAYLOAD_BYTES_MAX];
        let header = Header {
            payload_bytes: PAYLOAD_BYTES_MAX,
            sequence: 0,
        };
        assert_eq!(joiner.push(header, &full), Ok(None));
        let header = Header {
            payload_bytes: 6,
            sequence: 1,
        };
        assert_eq!(
            joiner.check(header),
            Err(JoinError::TooLarge {
                bytes_max: PAYLOAD_BYTES_MAX + 5
            })
        );
        let header = Header {
            payload_bytes: 5,
            sequence: 1,
        };
        assert_eq!(
            joiner
                .push(header, b"12345")
                .map(|whole| whole.map(<[u8]>::len)),
            Ok(Some(PAYLOAD_BYTES_MAX + 5))
        );
    }

    #[test]
    fn a_body_of_another_length_than_its_header_is_refused() {
        let mut joiner = Joiner::new(100);
        let got = joiner.push(
            Header {
                payload_bytes: 3,
                sequence: 0,
            },
            b"ab",
        );
        assert_eq!(
            got,
            Err(JoinError::Torn {
                expected: 3,
                got: 2
            })
        );
    }

    #[test]
    fn payloads_lie_one_behind_the_other() {
        let mut packets = Vec::new();
        for payload in [&b"one"[..], b"", b"three"] {
            write(&mut packets, &mut 0, payload);
        }
        let all: Vec<&[u8]> = payloads(&packets).collect();
        assert_eq!(all, [&b"one"[..], b"", b"three"]);
        let torn: Vec<&[u8]> = payloads(&packets[..packets.len() - 1]).collect();
        assert_eq!(torn, [&b"one"[..], b""]);
    }
}
