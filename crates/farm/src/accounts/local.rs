//! Clients that come by a Unix socket. They are on this machine and have no address; what is kept, compared
//! and shown by address has one that stands for them, and that no client over TCP can have.
//!
//! For accounts such a client is at `localhost` and nowhere else, as on the servers: `127.0.0.1` in a user
//! table means TCP. For rules, limits and levels, and towards servers that are told where clients are, it
//! is at 127.0.0.1.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Stands for the address of a client that comes by a Unix socket.
pub const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The client comes by a Unix socket.
pub fn is_local(client: IpAddr) -> bool {
    client == LOCAL.ip()
}

/// Where the client is for those that know addresses only.
pub fn address_of(client: IpAddr) -> IpAddr {
    match is_local(client) {
        true => IpAddr::V4(Ipv4Addr::LOCALHOST),
        false => client.to_canonical(),
    }
}

/// The client's host as the servers show it.
pub fn host_of(client: IpAddr) -> String {
    match is_local(client) {
        true => "localhost".to_owned(),
        false => client.to_canonical().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_by_the_socket_is_this_machines() {
        let far: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
        assert_eq!(host_of(LOCAL.ip()), "localhost");
        assert!(address_of(LOCAL.ip()).is_loopback());
        assert_eq!(host_of(far), "10.0.0.1");
        assert!(!is_local(far) && !is_local(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
