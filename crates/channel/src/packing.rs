//! Compression of the stream into frames, and back.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use mysql_wire::compressed::{
    COMPRESS_BYTES_MIN, Commands, FRAME_BYTES_MAX, HEADER_BYTES, Header, Renumber,
};
use zstd::zstd_safe::{CCtx, DCtx, compress_bound};

/// Plain bytes of one of our frames. Larger ones would hardly be smaller together, since zlib looks
/// back over 32 KB only.
const PIECE_BYTES: usize = 65_536;

/// zlib's own default, which the servers use.
const ZLIB_LEVEL: u32 = 6;

/// How the bodies of frames are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Zlib,
    /// With its level, 1 to 22.
    Zstd(u8),
}

/// Which part the peer of a channel plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// We answer commands.
    Server,
    /// We send commands.
    Client,
}

/// What a peer did wrong. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    #[error("compressed frame {got} came where {expected} was due")]
    OutOfOrder { expected: u8, got: u8 },
    #[error("a compressed frame does not hold what its header says")]
    Damaged,
}

impl From<PackError> for io::Error {
    fn from(error: PackError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl PackError {
    /// The error inside an error of the stream.
    pub fn of(error: &io::Error) -> Option<PackError> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// The counters of one compressed connection.
#[derive(Clone, Debug)]
pub struct Packing {
    algorithm: Algorithm,
    /// The sequence number of the next frame in either direction.
    next: u8,
    /// No frame of the command has come yet.
    fresh: bool,
    asked: Option<Box<Asked>>,
}

/// For the client's side: what was asked and how far the answers are.
#[derive(Clone, Debug, Default)]
struct Asked {
    commands: Commands,
    /// One for each command that was sent without waiting, the one being answered first.
    counts: VecDeque<Count>,
    /// Something came since the last command was sent.
    answered: bool,
    renumber: Renumber,
}

/// The next numbers of one command's answer: that of the frame, and that of the packet.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    frame: u8,
    packet: u8,
}

impl Asked {
    /// The count to which a frame of this number belongs: the current answer's, or that of the next
    /// which begins with it.
    fn count(&mut self, frame: u8) -> Option<&mut Count> {
        let at = self.counts.iter().position(|count| count.frame == frame)?;
        self.counts.drain(..at);
        self.counts.front_mut()
    }

    /// Another command is being sent.
    fn begin(&mut self) {
        if std::mem::take(&mut self.answered) {
            self.counts.clear();
        }
        self.counts.push_back(Count::default());
    }
}

impl Packing {
    pub fn new(algorithm: Algorithm, side: Side) -> Packing {
        Packing {
            algorithm,
            next: 0,
            fresh: true,
            asked: (side == Side::Client).then(Box::default),
        }
    }

    /// The next frame received begins a new command.
    pub fn new_command(&mut self) {
        self.next = 0;
        self.fresh = true;
    }

    /// Takes one frame off the front of `bytes` and appends what it stands for. Returns the bytes of
    /// the frame; None when it is not whole yet.
    pub fn unpack(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Option<usize>, PackError> {
        let Some(header) = Header::parse(bytes) else {
            return Ok(None);
        };
        if let Err(error) = self.check(header.sequence) {
            self.answer(header.sequence);
            return Err(error);
        }
        let Some(body) = bytes.get(HEADER_BYTES..header.frame_bytes()) else {
            return Ok(None);
        };
        let start = plain.len();
        match header.plain_bytes {
            0 => plain.extend_from_slice(body),
            plain_bytes => {
                SCRATCH.with_borrow_mut(|scratch| {
                    scratch.unpack(self.algorithm, body, plain, plain_bytes)
                })?;
            }
        }
        self.next = header.sequence.wrapping_add(1);
        self.fresh = false;
        if let Some(asked) = &mut self.asked {
            asked.answered = true;
            let mut renumber = asked.renumber;
            if let Some(count) = asked.count(header.sequence) {
                count.frame = self.next;
                renumber.apply(&mut plain[start..], &mut count.packet);
            }
            asked.renumber = renumber;
        }
        Ok(Some(header.frame_bytes()))
    }

    /// A last word follows the number that the peer has used.
    pub(crate) fn answer(&mut self, sequence: u8) {
        (self.next, self.fresh) = (sequence.wrapping_add(1), false);
    }

    /// Whether a frame of this number may come now.
    fn check(&self, got: u8) -> Result<(), PackError> {
        let expected = match &self.asked {
            None => self.next,
            Some(asked) if asked.counts.iter().any(|count| count.frame == got) => got,
            Some(asked) => asked.counts.front().map_or(0, |count| count.frame),
        };
        if got == expected {
            return Ok(());
        }
        Err(PackError::OutOfOrder { expected, got })
    }

    /// Appends frames that stand for `plain`.
    pub fn pack(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut left = plain;
        while !left.is_empty() {
            let mut bytes = left.len();
            if let Some(asked) = &mut self.asked {
                let begins;
                (bytes, begins) = asked.commands.next(left);
                if begins {
                    self.next = 0;
                    asked.begin();
                }
            } else if std::mem::take(&mut self.fresh) && self.next == 0 {
                // The command came in the frame of the one before it.
                self.next = 1;
            }
            let (here, rest) = left.split_at(bytes);
            for piece in here.chunks(PIECE_BYTES) {
                self.frame(piece, out)?;
            }
            if let Some(asked) = &mut self.asked
                && let Some(count) = asked.counts.back_mut()
            {
                count.frame = self.next;
                count.packet = asked.commands.answer_sequence();
            }
            left = rest;
        }
        Ok(())
    }

    fn frame(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        debug_assert!(piece.len() <= FRAME_BYTES_MAX, "pieces are shorter");
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let body = start + HEADER_BYTES;
        let mut plain_bytes = 0;
        if piece.len() >= COMPRESS_BYTES_MIN {
            SCRATCH.with_borrow_mut(|scratch| scratch.pack(self.algorithm, piece, out))?;
            plain_bytes = piece.len();
        }
        if plain_bytes == 0 || out.len() - body >= piece.len() {
            // Not worth it: as it is.
            plain_bytes = 0;
            out.truncate(body);
            out.extend_from_slice(piece);
        }
        let header = Header {
            body_bytes: out.len() - body,
            sequence: self.next,
            plain_bytes,
        };
        out[start..body].copy_from_slice(&header.encode());
        self.next = self.next.wrapping_add(1);
        Ok(())
    }
}

thread_local! {
    /// Working memory of the codecs, of which a core needs one: hundreds of kilobytes, and nothing in
    /// it outlives a call.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
    squeeze: Option<CCtx<'static>>,
    expand: Option<DCtx<'static>>,
}

impl Scratch {
    /// Appends `plain_bytes`; a body that holds fewer or more is damaged, and never makes more.
    fn unpack(
        &mut self,
        algorithm: Algorithm,
        body: &[u8],
        plain: &mut Vec<u8>,
        plain_bytes: usize,
    ) -> Result<(), PackError> {
        let mut fresh = Vec::with_capacity(plain_bytes);
        match algorithm {
            Algorithm::Zlib => {
                let inflate = self.inflate.get_or_insert_with(|| Decompress::new(true));
                inflate.reset(true);
                let status = inflate.decompress_vec(body, &mut fresh, FlushDecompress::Finish);
                let whole = matches!(status, Ok(Status::StreamEnd));
                if !whole || inflate.total_in() != body.len() as u64 {
                    return Err(PackError::Damaged);
                }
            }
            Algorithm::Zstd(_) => {
                let expand = self.expand.get_or_insert_with(DCtx::create);
                expand
                    .decompress(&mut fresh, body)
                    .map_err(|_| PackError::Damaged)?;
            }
        }
        if fresh.len() != plain_bytes {
            return Err(PackError::Damaged);
        }
        if plain.is_empty() {
            *plain = fresh;
        } else {
            plain.extend_from_slice(&fresh);
        }
        Ok(())
    }

    /// Appends the compressed piece.
    fn pack(&mut self, algorithm: Algorithm, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let failed = || io::Error::other("compression failed");
        let start = out.len();
        match algorithm {
            Algorithm::Zlib => {
                let level = Compression::new(ZLIB_LEVEL);
                let deflate = self
                    .deflate
                    .get_or_insert_with(|| Compress::new(level, true));
                deflate.reset();
                // A piece that does not shrink is sent as it is, so more room is of no use.
                out.reserve(piece.len() + 64);
                match deflate.compress_vec(piece, out, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => {}
                    Ok(_) => out.resize(start + piece.len(), 0),
                    Err(_) => return Err(failed()),
                }
            }
            Algorithm::Zstd(level) => {
                let squeeze = self.squeeze.get_or_insert_with(CCtx::create);
                out.resize(start + compress_bound(piece.len()), 0);
                let level = i32::from(level.clamp(1, 22));
                let bytes = squeeze
                    .compress(&mut out[start..], piece, level)
                    .map_err(|_| failed())?;
                out.truncate(start + bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Algorithm; 2] = [Algorithm::Zlib, Algorithm::Zstd(3)];

    fn text(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| b'a' + (at / 7 % 20) as u8).collect()
    }

    fn unpack_all(packing: &mut Packing, mut bytes: &[u8]) -> Result<Vec<u8>, PackError> {
        let mut plain = Vec::new();
        while let Some(frame) = packing.unpack(bytes, &mut plain)? {
            bytes = &bytes[frame..];
        }
        assert!(bytes.is_empty());
        Ok(plain)
    }

    /// A command of the protocol with this payload.
    fn command(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        mysql_wire::packet::write(&mut out, &mut 0, payload);
        out
    }

    #[test]
    fn what_is_packed_is_unpacked_again() {
        for algorithm in BOTH {
            for bytes in [0, 1, 45, 46, 1000, PIECE_BYTES, 3 * PIECE_BYTES + 5] {
                let mut client = Packing::new(algorithm, Side::Client);
                let mut server = Packing::new(algorithm, Side::Server);
                let sent = command(&text(bytes));
                let mut frames = Vec::new();
                client.pack(&sent, &mut frames).expect("packed");
                assert!(frames.len() <= sent.len() + 7 * (sent.len() / PIECE_BYTES + 1));
                assert!(bytes < 1000 || frames.len() < sent.len() / 5);
                assert!(unpack_all(&mut server, &frames) == Ok(sent));
                let reply = command(&text(2 * bytes + 1));
                frames.clear();
                server.pack(&reply, &mut frames).expect("packed");
                let back = unpack_all(&mut client, &frames).expect("unpacked");
                assert!(back[4..] == reply[4..]);
            }
        }
    }

    #[test]
    fn short_pieces_and_noise_go_as_they_are() {
        for algorithm in BOTH {
            let mut packing = Packing::new(algorithm, Side::Client);
            let mut frames = Vec::new();
            let short = command(&[b'x'; COMPRESS_BYTES_MIN - 5]);
            packing.pack(&short, &mut frames).expect("packed");
            assert_eq!(frames[..7], [49, 0, 0, 0, 0, 0, 0]);
            assert_eq!(frames[7..], short);
            let mut seed = 1u32;
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .take(300)
            .collect();
            frames.clear();
            packing.pack(&command(&noise), &mut frames).expect("packed");
            assert_eq!(frames.len(), 300 + 4 + 7);
            assert_eq!(frames[4..7], [0, 0, 0]);
        }
    }

    #[test]
    fn every_command_begins_a_new_count() {
        let mut client = Packing::new(Algorithm::Zlib, Side::Client);
        let mut server = Packing::new(Algorithm::Zlib, Side::Server);
        let (mut frames, mut plain) = (Vec::new(), Vec::new());
        let two = [command(b"one"), command(b"two")].concat();
        client.pack(&two, &mut frames).expect("packed");
        assert_eq!((frames[3], frames[14 + 3]), (0, 0));
        for part in [0..14, 14..28] {
            server.new_command();
            let taken = server.unpack(&frames[part], &mut plain);
            assert_eq!(taken, Ok(Some(14)));
            let mut reply = Vec::new();
            server.pack(b"reply", &mut reply).expect("packed");
            server.pack(b"reply", &mut reply).expect("packed");
            assert_eq!((reply[3], reply[12 + 3]), (1, 2));
        }
        // A command that came in the same frame is answered by frame 1 as well.
        server.new_command();
        let mut reply = Vec::new();
        server.pack(b"reply", &mut reply).expect("packed");
        assert_eq!(reply[3], 1);
    }

    #[test]
    fn answers_to_commands_sent_together_are_told_apart() {
        let mut client = Packing::new(Algorithm::Zlib, Side::Client);
        let mut frames = Vec::new();
        for round in 0..3 {
            let three = [command(b"close"), command(b"one"), command(b"two")].concat();
            client.pack(&three, &mut frames).expect("packed");
            // The first has no answer; the others have two frames and one. The server numbers the
            // packets of a second frame as it numbers frames.
            for (frame, packets) in [(1, &[1, 2][..]), (2, &[2]), (1, &[1])] {
                let mut reply = Vec::new();
                for packet in packets {
                    reply.extend_from_slice(&[1, 0, 0, *packet, b'x']);
                }
                let header = Header {
                    body_bytes: reply.len(),
                    sequence: frame,
                    plain_bytes: 0,
                };
                let whole = [&header.encode()[..], &reply].concat();
                let mut plain = Vec::new();
                assert_eq!(client.unpack(&whole, &mut plain), Ok(Some(whole.len())));
                let numbers: Vec<u8> = plain.chunks(5).map(|packet| packet[3]).collect();
                let expected: &[u8] = match (frame, packets.len()) {
                    (2, _) => &[3],
                    (_, 2) => &[1, 2],
                    _ => &[1],
                };
                assert_eq!(numbers, expected, "round {round}");
            }
            let unasked = client.unpack(&[0, 0, 0, 9, 0, 0, 0], &mut Vec::new());
            assert!(matches!(unasked, Err(PackError::OutOfOrder { got: 9, .. })));
        }
    }

    #[test]
    fn a_file_is_sent_under_the_count_of_its_command() {
        let mut client = Packing::new(Algorithm::Zlib, Side::Client);
        let mut frames = Vec::new();
        client.pack(&command(b"LOAD"), &mut frames).expect("packed");
        let mut plain = Vec::new();
        let asked = [5, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0xFB];
        assert_eq!(client.unpack(&asked, &mut plain), Ok(Some(12)));
        let mut data = Vec::new();
        mysql_wire::packet::write(&mut data, &mut 2, b"rows");
        frames.clear();
        client.pack(&data, &mut frames).expect("packed");
        assert_eq!(frames[3], 2);
    }

    #[test]
    fn lies_are_refused() {
        for algorithm in BOTH {
            let mut client = Packing::new(algorithm, Side::Client);
            let mut frames = Vec::new();
            let plain_bytes = 1004u16;
            client
                .pack(&command(&text(1000)), &mut frames)
                .expect("packed");
            let unpack = |frame: &[u8]| {
                let mut plain = Vec::new();
                Packing::new(algorithm, Side::Server).unpack(frame, &mut plain)
            };
            assert_eq!(unpack(&frames), Ok(Some(frames.len())));
            assert_eq!(unpack(&frames[..frames.len() - 1]), Ok(None));
            for claimed in [1, plain_bytes - 1, plain_bytes + 1, u16::MAX] {
                let mut lie = frames.clone();
                lie[4..6].copy_from_slice(&claimed.to_le_bytes());
                assert_eq!(unpack(&lie), Err(PackError::Damaged), "{claimed}");
                lie[6] = 0xFF;
                assert_eq!(unpack(&lie), Err(PackError::Damaged), "{claimed}");
            }
            let mut longer = frames.clone();
            longer.push(0);
            longer[0] += 1;
            assert_eq!(unpack(&longer), Err(PackError::Damaged));
            let mut cut = frames[..frames.len() - 3].to_vec();
            cut[0] -= 3;
            assert_eq!(unpack(&cut), Err(PackError::Damaged));
            let mut order = frames.clone();
            order[3] = 1;
            let wrong = PackError::OutOfOrder {
                expected: 0,
                got: 1,
            };
            assert_eq!(unpack(&order), Err(wrong));
            assert_eq!(unpack(b"\x04\0\0\0\x09\0\0junk"), Err(PackError::Damaged));
        }
    }
}
