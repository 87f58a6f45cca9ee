//! Where clients come in: sockets that listen, those that another process hands over, and who accepts, a
//! thread or the cores themselves.

mod acceptor;
mod core_acceptor;
mod inherited;
mod listener;
mod watch;

pub use self::acceptor::Acceptor;
pub use self::core_acceptor::{CoreAcceptor, Watcher};
pub use self::inherited::inherited;
pub use self::listener::{Address, Listener, SOCKET_PATH_BYTES_MAX, listen};
