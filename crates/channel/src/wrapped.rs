//! The layers of a channel that is not plain, without any I/O: bytes of the socket in, plain bytes
//! out, and the other way.

use std::io;
use std::sync::Arc;

use memory::{Budget, Reservation};
use mysql_wire::compressed::Header;

use crate::packing::Packing;
use crate::tls::{self, Opened, Sink, Tls};

/// Room for a receive on an idle channel: most commands fit.
const IDLE_BYTES: usize = 512;

/// The largest receive; the longest TLS record and some more.
const RECEIVE_BYTES_MAX: usize = 32_768;

/// A frame of so many plain bytes is not counted: most are no longer, and its bytes are gone as soon as the
/// caller has taken them.
const PASSING_BYTES: usize = 65_536;

/// What came of the bytes so far.
pub(crate) enum Pull {
    /// So many plain bytes were put into the buffer.
    Bytes(usize),
    /// Further bytes of the socket are needed.
    More,
    /// The peer said that nothing follows.
    Closed,
}

/// TLS, compression, or both.
pub(crate) struct Wrapped {
    tls: Option<Tls>,
    packing: Option<Packing>,
    /// Frames as they come out of TLS or off the socket, the last one perhaps not whole.
    frames: Vec<u8>,
    /// Plain bytes for which the caller's buffer had no room.
    plain: Vec<u8>,
    plain_at: usize,
    /// The room of the next receive: follows what comes.
    room: usize,
    /// For frames and plain bytes, where they are limited.
    reservation: Option<Reservation>,
}

impl Wrapped {
    /// TLS after its handshake; `plain` came with the handshake's end.
    pub fn tls(tls: Tls, plain: Vec<u8>) -> Wrapped {
        Wrapped::new(Some(tls), None, plain)
    }

    pub fn packed(packing: Packing) -> Wrapped {
        Wrapped::new(None, Some(packing), Vec::new())
    }

    fn new(tls: Option<Tls>, packing: Option<Packing>, plain: Vec<u8>) -> Wrapped {
        Wrapped {
            tls,
            packing,
            frames: Vec::new(),
            plain,
            plain_at: 0,
            room: IDLE_BYTES,
            reservation: None,
        }
    }

    pub fn compress(&mut self, packing: Packing) {
        // What the peer sent ahead is frames already.
        self.frames = self.plain.split_off(self.plain_at);
        (self.plain, self.plain_at) = (Vec::new(), 0);
        self.packing = Some(packing);
    }

    pub fn keep_within(&mut self, reservation: Reservation) {
        self.reservation = Some(reservation);
    }

    pub fn move_to(&mut self, memory: &Arc<Budget>) {
        if let Some(reservation) = &mut self.reservation {
            reservation.move_to(memory);
        }
    }

    pub fn new_command(&mut self) {
        if let Some(packing) = &mut self.packing {
            packing.new_command();
        }
    }

    pub fn is_compressed(&self) -> bool {
        self.packing.is_some()
    }

    pub fn as_tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// True when plain bytes, or parts of frames, have come and were not taken.
    pub fn holds_bytes(&self) -> bool {
        self.plain_at < self.plain.len() || !self.frames.is_empty()
    }

    /// True when part of a TLS record has come.
    pub fn holds_raw(&self) -> bool {
        self.tls.as_ref().is_some_and(Tls::holds_raw)
    }

    /// Moves plain bytes into `buffer`, as far as it has room.
    pub fn pull(&mut self, buffer: &mut Vec<u8>) -> io::Result<Pull> {
        let before = buffer.len();
        loop {
            if self.plain_at < self.plain.len() {
                let room = buffer.capacity() - buffer.len();
                let bytes = room.min(self.plain.len() - self.plain_at);
                let end = self.plain_at + bytes;
                buffer.extend_from_slice(&self.plain[self.plain_at..end]);
                self.plain_at = end;
                if end == self.plain.len() {
                    (self.plain, self.plain_at) = (Vec::new(), 0);
                    self.give_back();
                }
                return Ok(Pull::Bytes(buffer.len() - before));
            }
            self.cover_next()?;
            if let Some(packing) = &mut self.packing
                && let Some(bytes) = packing.unpack(&self.frames, &mut self.plain)?
            {
                consume(&mut self.frames, bytes);
                continue;
            }
            let Some(tls) = &mut self.tls else {
                return Ok(Pull::More);
            };
            let mut sink = match self.packing {
                Some(_) => Sink::all(&mut self.frames),
                None => Sink::first(buffer, &mut self.plain),
            };
            match tls.open(&mut sink).map_err(tls::broken)? {
                Opened::Bytes if buffer.len() > before => {
                    return Ok(Pull::Bytes(buffer.len() - before));
                }
                Opened::Bytes => {}
                Opened::More => return Ok(Pull::More),
                Opened::Closed => return Ok(Pull::Closed),
            }
        }
    }

    /// Reserves what has come of frames, and what the next one becomes if it is whole.
    fn cover_next(&mut self) -> io::Result<()> {
        let (Some(packing), Some(reservation)) = (&mut self.packing, &mut self.reservation) else {
            return Ok(());
        };
        let Some(header) = Header::parse(&self.frames) else {
            return Ok(());
        };
        let plain_bytes = header.plain_bytes.max(header.body_bytes);
        let is_whole = self.frames.len() >= header.frame_bytes();
        let plain_bytes = match is_whole && plain_bytes > PASSING_BYTES {
            true => plain_bytes,
            false => 0,
        };
        let covered = reservation.cover(self.frames.capacity() + plain_bytes);
        covered.map_err(|full| {
            packing.answer(header.sequence);
            io::Error::new(io::ErrorKind::OutOfMemory, full)
        })
    }

    /// Gives back what was reserved for bytes that are gone.
    fn give_back(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink(self.frames.capacity() + self.plain.capacity());
        }
    }

    /// The buffer that the socket's bytes go into; give it back with [`Wrapped::restore`].
    pub fn lend(&mut self) -> Vec<u8> {
        let mut raw = match &mut self.tls {
            Some(tls) => tls.lend(),
            None => std::mem::take(&mut self.frames),
        };
        if raw.is_empty() && raw.capacity() > self.room {
            raw = Vec::new();
        }
        raw.reserve_exact(self.room);
        raw
    }

    /// Takes the lent buffer back, with what came into it.
    pub fn restore(&mut self, raw: Vec<u8>, received: io::Result<usize>) -> io::Result<usize> {
        if let Ok(bytes) = received {
            self.room = if bytes >= self.room {
                (self.room * 4).min(RECEIVE_BYTES_MAX)
            } else if bytes < self.room / 4 {
                (self.room / 4).max(IDLE_BYTES)
            } else {
                self.room
            };
        }
        match &mut self.tls {
            Some(tls) => tls.restore(raw),
            None => self.frames = raw,
        }
        received
    }

    /// Plain bytes as they go to the socket.
    pub fn seal(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut packed = Vec::new();
        let plain = match &mut self.packing {
            Some(packing) => {
                packing.pack(plain, &mut packed)?;
                &packed
            }
            None => plain,
        };
        let Some(tls) = &mut self.tls else {
            return Ok(packed);
        };
        let mut sink = match self.packing {
            Some(_) => Sink::all(&mut self.frames),
            None => Sink::all(&mut self.plain),
        };
        tls.seal(plain, &mut sink).map_err(tls::broken)
    }

    /// The last bytes of TLS.
    pub fn farewell(&mut self) -> Option<Vec<u8>> {
        self.tls.as_mut()?.farewell()
    }
}

/// Removes bytes from the front; an empty buffer that is large is given up.
fn consume(buffer: &mut Vec<u8>, bytes: usize) {
    if bytes < buffer.len() {
        buffer.drain(..bytes);
    } else if buffer.capacity() > RECEIVE_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
