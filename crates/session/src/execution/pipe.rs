//! The buffer between a server and the client, with what of it is ready to be passed on.

use backend::Connection;

/// Bytes on their way from a server to the client.
pub(crate) struct Pipe {
    pub buffer: Vec<u8>,
    /// So many at the front have been walked and may go to the client; the others come next.
    pub ready: usize,
}

impl Pipe {
    /// Receives more behind what is there.
    pub(super) async fn fill(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let (received, filled) = connection.recv(std::mem::take(&mut self.buffer)).await;
        self.buffer = filled;
        received.map(drop)
    }
}
