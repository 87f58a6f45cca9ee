//! The buffer between a server and the client, with what of it is ready to be passed on.

use backend::Connection;
use mysql_wire::relay::BUFFER_BYTES;

/// Bytes on their way from a server to the client.
pub struct Pipe {
    pub buffer: Vec<u8>,
    /// So many at the front have been walked and may go to the client; the others come next.
    pub ready: usize,
}

impl Pipe {
    /// Receives more behind what is there.
    pub async fn fill(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let (received, filled) = connection.recv(std::mem::take(&mut self.buffer)).await;
        self.buffer = filled;
        received.map(drop)
    }
}

/// Makes sure that a receive has room, and that what must be seen whole will fit.
pub fn make_room(buffer: &mut Vec<u8>, need: usize, long: bool) {
    let wanted = match (need, long) {
        (0, true) => LONG_BUFFER_BYTES,
        (0, false) => BUFFER_BYTES,
        (need, _) => need + 1,
    };
    if buffer.capacity() < wanted || buffer.len() == buffer.capacity() {
        let target = wanted.max(buffer.len() + 1);
        buffer.reserve_exact(target - buffer.len());
    }
}

/// The pieces of a long reply. It bounds what a slow client costs.
pub(crate) const LONG_BUFFER_BYTES: usize = 65_536;
