//! Records as a batch of Kafka's second format, and the partition that a key belongs to.

use std::io::Write;

use flate2::write::GzEncoder;

use super::wire::Writer;
use crate::message::Message;
use crate::spec::Compression;

/// Who produces: brokers drop what they have of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// A message with its key.
pub(super) struct Record<'a> {
    pub(super) key: Option<String>,
    pub(super) message: &'a Message,
}

/// Bytes in front of the checksum's: the offset of the batch, its length, the leader's epoch, the format, the checksum.
const HEAD_BYTES: usize = 8 + 4 + 4 + 1 + 4;

/// The records of one partition, sent at this moment; the first one has this number among those of the producer.
pub(super) fn write_batch(
    producer: &Producer,
    first: i32,
    now_ms: i64,
    records: &[Record<'_>],
    compress: Compression,
) -> Vec<u8> {
    let mut all = Writer::default();
    for (at, record) in (0..).zip(records) {
        let bytes = write_record(at, record);
        all.short(Some(&bytes));
    }
    let (kind, packed) = pack(all.0, compress);
    let count = i32::try_from(records.len()).unwrap_or(i32::MAX);
    let mut body = Writer::default();
    body.i16(kind);
    body.i32(count - 1);
    // The first and the last one's time.
    body.i64(now_ms);
    body.i64(now_ms);
    body.i64(producer.id);
    body.i16(producer.epoch);
    body.i32(first);
    body.i32(count);
    body.0.extend_from_slice(&packed);
    let mut batch = Writer::default();
    batch.i64(0);
    batch.length(HEAD_BYTES - 12 + body.0.len());
    batch.i32(-1);
    batch.i8(2);
    batch.0.extend_from_slice(&crc32c(&body.0).to_be_bytes());
    batch.0.extend_from_slice(&body.0);
    batch.0
}

/// The records as they are packed, and Kafka's number of how.
fn pack(records: Vec<u8>, compress: Compression) -> (i16, Vec<u8>) {
    let packed = match compress {
        Compression::None => None,
        Compression::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let written = gzip.write_all(&records);
            written.and_then(|()| gzip.finish()).ok().map(|it| (1, it))
        }
        Compression::Zstd => zstd::encode_all(&records[..], 0).ok().map(|it| (4, it)),
    };
    // What cannot be packed goes as it is.
    packed.unwrap_or((0, records))
}

fn write_record(at: i64, record: &Record<'_>) -> Vec<u8> {
    let message = record.message;
    let mut bytes = Writer::default();
    bytes.i8(0);
    bytes.varint(0);
    bytes.varint(at);
    bytes.short(record.key.as_deref().map(str::as_bytes));
    let other = message.record.as_ref();
    bytes.short(match other {
        Some(other) => other.value.as_deref().map(str::as_bytes),
        None => Some(&message.line),
    });
    let own = [
        ("heddle-id", &message.id),
        ("heddle-token", &message.token),
        ("heddle-event", &message.event),
    ];
    let more = other.map_or(&[][..], |it| &it.headers);
    let more = more.iter().map(|(name, value)| (name.as_str(), value));
    let headers: Vec<_> = own.into_iter().chain(more).collect();
    bytes.varint(i64::try_from(headers.len()).unwrap_or(0));
    for (name, value) in headers {
        bytes.short(Some(name.as_bytes()));
        bytes.short(Some(value.as_bytes()));
    }
    bytes.0
}

/// The partition of a key among so many, as Kafka's own clients choose it.
pub(super) fn partition_of(key: &str, count: i32) -> i32 {
    (murmur2(key.as_bytes()) & 0x7FFF_FFFF) as i32 % count
}

/// MurmurHash2, 32 bits, with the seed of Kafka's clients.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5BD1_E995;
    let mut hash = 0x9747_B28C_u32 ^ data.len() as u32;
    let mut fours = data.chunks_exact(4);
    for four in &mut fours {
        let mut k = four
            .iter()
            .rev()
            .fold(0, |k, &byte| k << 8 | u32::from(byte));
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = fours.remainder();
    if !rest.is_empty() {
        hash ^= rest
            .iter()
            .rev()
            .fold(0, |k, &byte| k << 8 | u32::from(byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The checksum of Castagnoli.
fn crc32c(data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: &u8| crc >> 8 ^ TABLE[(crc as u8 ^ byte) as usize];
    !data.iter().fold(!0, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = at as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82F6_3B78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_hashes_are_those_that_everybody_has() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        // Of org.apache.kafka.common.utils.UtilsTest.
        for (text, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }

    #[test]
    fn a_batch_says_how_long_it_is() {
        let message = Message {
            line: b"{}".to_vec(),
            ..Message::default()
        };
        let record = || Record {
            key: None,
            message: &message,
        };
        let producer = Producer { id: 7, epoch: 1 };
        let both = [record(), record()];
        let bytes = write_batch(&producer, 3, 9, &both, Compression::None);
        let length = i32::from_be_bytes(bytes[8..12].try_into().expect("four"));
        assert_eq!(usize::try_from(length), Ok(bytes.len() - 12));
        let crc = u32::from_be_bytes(bytes[17..21].try_into().expect("four"));
        assert_eq!(crc, crc32c(&bytes[21..]));
        assert_eq!(bytes[23..27], [0, 0, 0, 1], "the last one's number");
        assert_eq!(bytes[53..57], [0, 0, 0, 3], "the first one's number");
        let packed = write_batch(&producer, 3, 9, &both, Compression::Zstd);
        assert_eq!(packed[21..23], [0, 4], "how it is packed");
        let plain = zstd::decode_all(&packed[61..]).expect("a frame");
        assert_eq!(plain, bytes[61..], "behind the number of records");
    }
}
