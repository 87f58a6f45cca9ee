//! What surrounds the statements of a connection: capabilities, TLS, compression, limits, KILL.

mod bad_input;
mod capabilities;
mod compression;
mod defaults;
mod drivers;
mod kill;
mod limits;
mod peers;
mod processlist;
mod proxy_protocol;
mod sockets;
mod tls;
mod tls_servers;
