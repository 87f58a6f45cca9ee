//! Where the doors of the data plane listen: a TCP address, a Unix socket's path, or one of each.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use reactor::{Address, SOCKET_PATH_BYTES_MAX};

use super::value::{Raw, Value};

/// A door's addresses: at most one for TCP, and at most one Unix socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listens {
    pub tcp: Option<SocketAddr>,
    pub socket: Option<PathBuf>,
}

impl Listens {
    /// Both kinds, as far as there are any.
    pub fn addresses(&self) -> Vec<Address> {
        let tcp = self.tcp.map(Address::Tcp);
        let socket = self.socket.clone().map(Address::Socket);
        tcp.into_iter().chain(socket).collect()
    }

    fn of(words: &[&str]) -> Result<Listens, String> {
        let mut listens = Listens::default();
        for word in words.iter().map(|word| word.trim()) {
            let twice = match word.contains('/') {
                true => listens.socket.replace(path(word)?).is_some(),
                false => {
                    let address = SocketAddr::parse(&Raw::Word(word))
                        .map_err(|why| format!("{why}, or the path of a Unix socket"))?;
                    listens.tcp.replace(address).is_some()
                }
            };
            if twice {
                return Err("takes one TCP address and one Unix socket".to_owned());
            }
        }
        Ok(listens)
    }
}

fn path(word: &str) -> Result<PathBuf, String> {
    let path = word.strip_prefix("unix:").unwrap_or(word);
    if path.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "the path of a Unix socket has at most {SOCKET_PATH_BYTES_MAX} bytes"
        ));
    }
    Ok(Path::new(path).to_owned())
}

impl From<SocketAddr> for Listens {
    fn from(address: SocketAddr) -> Listens {
        Listens {
            tcp: Some(address),
            socket: None,
        }
    }
}

impl fmt::Display for Listens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.addresses().iter().map(Address::to_string).collect();
        f.write_str(&shown.join(","))
    }
}

impl FromStr for Listens {
    type Err = String;

    fn from_str(word: &str) -> Result<Listens, String> {
        Listens::parse(&Raw::Word(word))
    }
}

impl Value for Listens {
    const KIND: &'static str = "address:port, path, or both";

    fn parse(raw: &Raw<'_>) -> Result<Listens, String> {
        let listens = OptionalListens::parse(raw)?.0;
        match listens == Listens::default() {
            true => Err("is empty; write for example 127.0.0.1:6306".to_owned()),
            false => Ok(listens),
        }
    }
}

/// The same of a door that may be left closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalListens(pub Listens);

impl Value for OptionalListens {
    const KIND: &'static str = "address:port, path, both or nothing";

    fn parse(raw: &Raw<'_>) -> Result<OptionalListens, String> {
        let words: Vec<&str> = match raw {
            Raw::List(words) => words.clone(),
            Raw::Number(number) => {
                return Err(format!("{number} is a number; write an address in quotes"));
            }
            Raw::Word(text) | Raw::Text(text) if text.is_empty() => Vec::new(),
            Raw::Word(text) | Raw::Text(text) => text.split(',').collect(),
        };
        Listens::of(&words).map(OptionalListens)
    }
}

/// Permissions of a file, in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Value for FileMode {
    const KIND: &'static str = "permissions, such as 0770";

    fn parse(raw: &Raw<'_>) -> Result<FileMode, String> {
        let wrong = || format!("{raw} is no permissions; write for example \"0770\"");
        let (Raw::Word(text) | Raw::Text(text)) = raw else {
            return Err(wrong());
        };
        let mode = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
        match mode <= 0o777 {
            true => Ok(FileMode(mode)),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_listens_at_an_address_and_a_path() {
        let read = |text| Listens::parse(&Raw::Word(text));
        let tcp = "127.0.0.1:6306".parse().expect("an address");
        let socket = Some(PathBuf::from("/run/heddle.sock"));
        assert_eq!(read("127.0.0.1:6306"), Ok(Listens::from(tcp)));
        let both = Listens {
            tcp: Some(tcp),
            socket: socket.clone(),
        };
        assert_eq!(read("/run/heddle.sock, 127.0.0.1:6306"), Ok(both.clone()));
        let list = Raw::List(vec!["127.0.0.1:6306", "/run/heddle.sock"]);
        assert_eq!(Listens::parse(&list), Ok(both));
        let alone = read("unix:/run/heddle.sock").expect("a path");
        assert_eq!((alone.tcp, alone.socket), (None, socket));
        assert!(read("").is_err_and(|why| why.contains("empty")));
        assert!(read("/a,/b").is_err_and(|why| why.contains("one Unix socket")));
        assert!(read("here").is_err_and(|why| why.contains("path")));
        let long = format!("/{}", "x".repeat(107));
        assert!(read(&long).is_err_and(|why| why.contains("107")));
    }

    #[test]
    fn permissions_are_octal() {
        let read = |text| FileMode::parse(&Raw::Text(text));
        assert_eq!(read("0770"), Ok(FileMode(0o770)));
        assert_eq!(read("777"), Ok(FileMode(0o777)));
        assert!(read("0888").is_err() && read("7777").is_err() && read("").is_err());
    }
}
