//! Which connections are one client's, for reads at the level `client`.

use std::net::IpAddr;

use crate::accounts::local::address_of;

/// Which connections are one client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientScope {
    /// Those of one account from one address.
    #[default]
    Address,
    /// The same of one process, where its driver tells which (the connection attribute `_pid`).
    Process,
    /// Those of one account.
    Account,
    /// All.
    Everybody,
}

impl ClientScope {
    /// All of them, by the names that settings use.
    pub const NAMED: [(&'static str, ClientScope); 4] = [
        ("address", ClientScope::Address),
        ("process", ClientScope::Process),
        ("account", ClientScope::Account),
        ("everybody", ClientScope::Everybody),
    ];

    /// The number of the client that has this connection.
    pub fn number(self, user: &[u8], address: IpAddr, process: Option<&[u8]>) -> u64 {
        let address = address_of(address).to_string();
        let (address, empty) = (address.as_bytes(), &b""[..]);
        let parts = match self {
            ClientScope::Address => [user, address, empty],
            ClientScope::Process => [user, address, process.unwrap_or_default()],
            ClientScope::Account => [user, empty, empty],
            ClientScope::Everybody => [empty; 3],
        };
        // FNV-1a: the other routers of a farm must come to the same number.
        let mut number = 0xcbf2_9ce4_8422_2325_u64;
        for part in parts {
            // No part holds this byte, as they are UTF-8 or names.
            for byte in part.iter().chain(&[0xFF]) {
                number = (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn scopes_say_which_connections_are_one_clients() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let there = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let same = |scope: ClientScope, a: (&str, IpAddr, &str), b: (&str, IpAddr, &str)| {
            let number = |(user, address, process): (&str, IpAddr, &str)| {
                let process = (!process.is_empty()).then_some(process.as_bytes());
                scope.number(user.as_bytes(), address, process)
            };
            number(a) == number(b)
        };
        let [address, process, account, everybody] = ClientScope::NAMED.map(|(_, scope)| scope);
        assert!(same(address, ("u", here, "1"), ("u", mapped, "2")));
        assert!(!same(address, ("u", here, ""), ("u", there, "")));
        assert!(!same(address, ("u", here, ""), ("v", here, "")));
        assert!(!same(process, ("u", here, "1"), ("u", here, "2")));
        assert!(same(process, ("u", here, ""), ("u", here, "")));
        assert!(same(account, ("u", here, "1"), ("u", there, "2")));
        assert!(!same(account, ("u", here, ""), ("v", here, "")));
        assert!(same(everybody, ("u", here, "1"), ("v", there, "2")));
    }
}
