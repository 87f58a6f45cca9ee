//! Where clients come in: sockets that listen, those that another process hands over, and the thread that accepts.

mod acceptor;
mod inherited;
mod listener;

pub use self::acceptor::Acceptor;
pub use self::inherited::inherited;
pub use self::listener::{Address, Listener, SOCKET_PATH_BYTES_MAX, listen};
