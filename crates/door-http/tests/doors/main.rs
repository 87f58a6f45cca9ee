//! HTTP doors over real sockets, on farms without servers.

mod apart;
mod asking;
mod console;
mod door;
mod limits;
mod peer_tls;
mod peers;
mod questions;
mod routers;
mod running;
