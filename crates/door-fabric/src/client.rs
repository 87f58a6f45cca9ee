//! Who asks, as far as requests show it: which form of an answer a client reads, and which shard maps it
//! can use.
//!
//! A request of 1.4 and one of 1.5 have the same method and the same parameters, and want other answers. What
//! tells them apart is what its maker writes around it.

use farm::shard::{Bound, Key, ShardKind, ShardMap};
use farm::{Mode, Server, Status};

/// The forms of an answer, by the release of Fabric that wrote them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 1.4.0: flat lists, and a server's standing as one boolean.
    Flat,
    /// 1.4.2: flat lists, and a server as a struct.
    Named,
    /// 1.5: a packet of sets.
    Packet,
}

/// What the router is told about forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// As each client shows itself.
    #[default]
    Auto,
    /// Always this one.
    Always(Form),
}

/// Whose shard maps must look how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// RANGE only, and integers.
    Mysqlnd,
    /// RANGE of 32 bits, and HASH; another kind ends every one of its connects.
    Java,
    /// All of Fabric's kinds.
    Other,
}

/// mysqlnd_ms copies the servers of a group into a list of ten without a look at its size, and reads it to an
/// empty entry behind the last one.
const MYSQLND_SERVERS_MAX: usize = 9;

/// mysqlnd_ms takes a longer host for the end of all servers.
const MYSQLND_HOST_BYTES_MAX: usize = 64;

/// What a request shows of its client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    pub path: &'a str,
    pub agent: &'a str,
    /// The call's first line says ISO-8859-1.
    pub is_latin: bool,
    pub method: &'a str,
    pub params: usize,
    /// It has the switch that 1.4.0 gave to look-ups.
    pub has_sync: bool,
}

/// Paths that name a form, for clients that show nothing of themselves.
pub const PATHS: [(&str, Form); 3] = [
    ("/1.4.0/RPC2", Form::Flat),
    ("/1.4.2/RPC2", Form::Named),
    ("/1.5/RPC2", Form::Packet),
];

impl Shown<'_> {
    /// The form that the client reads.
    pub fn form(&self, replies: Replies) -> Form {
        if let Some((_, form)) = PATHS.iter().find(|(path, _)| *path == self.path) {
            return *form;
        }
        if let Replies::Always(form) = replies {
            return form;
        }
        let is_connector = self.is_java() || self.agent.starts_with("MySQL Connector");
        let is_bare_dump = self.method.starts_with("dump.") && self.params == 0;
        // PHP writes ISO-8859-1: mysqlnd_ms, and `xmlrpc_encode_request` of the samples.
        match self.is_latin || self.has_sync || (is_bare_dump && !is_connector) {
            true => Form::Flat,
            false => Form::Packet,
        }
    }

    /// Which maps it can use.
    pub fn reader(&self, form: Form) -> Reader {
        match form {
            _ if self.is_java() => Reader::Java,
            Form::Flat | Form::Named => Reader::Mysqlnd,
            Form::Packet => Reader::Other,
        }
    }

    /// Connector/J's Fabric driver.
    fn is_java(&self) -> bool {
        self.agent.starts_with("MySQL XML-RPC")
    }
}

impl Reader {
    /// By which name the client is shown a map; `None` where it is better off without it. LIST and SLOTS
    /// are Heddle's, and no client of Fabric can find a shard by them: it asks `sharding.lookup_servers`.
    pub fn kind(self, map: &ShardMap) -> Option<&'static str> {
        let is_small = || {
            map.shards.iter().all(|shard| match shard.bound {
                Bound::Lower(Key::Int(number)) => i32::try_from(number).is_ok(),
                _ => true,
            })
        };
        match (self, map.kind) {
            (Reader::Other, ShardKind::Range | ShardKind::RangeInteger) => Some("RANGE"),
            (_, ShardKind::Range | ShardKind::RangeInteger) => is_small().then_some("RANGE"),
            (Reader::Java | Reader::Other, ShardKind::Hash) => Some("HASH"),
            (Reader::Other, ShardKind::RangeString | ShardKind::RangeDatetime) => {
                Some(map.kind.name())
            }
            _ => None,
        }
    }

    /// By which mode the client is told of a server. mysqlnd_ms does not know WRITE_ONLY: it would see
    /// neither that server nor any behind it.
    pub fn mode(self, mode: Mode) -> Mode {
        match (self, mode) {
            (Reader::Mysqlnd, Mode::WriteOnly) => Mode::ReadWrite,
            (_, mode) => mode,
        }
    }

    /// Those of a group's servers that the client can be told of, each with the host that it is told; `alike`
    /// where all have one address.
    pub fn servers<'s>(
        self,
        servers: Vec<(&'s Server, &'s str)>,
        alike: bool,
    ) -> Vec<(&'s Server, &'s str)> {
        let most = match self {
            Reader::Mysqlnd => MYSQLND_SERVERS_MAX,
            _ if self.sees_one(alike) => 1,
            Reader::Java | Reader::Other => return servers,
        };
        let mut told = servers;
        if self == Reader::Mysqlnd {
            told.retain(|(_, host)| host.len() <= MYSQLND_HOST_BYTES_MAX);
        }
        if told.len() > most {
            told.sort_by_key(|(server, _)| server.status != Status::Primary);
            told.truncate(most);
        }
        told
    }

    /// The client is told one server of each group, which takes everything. Connector/J knows servers by their
    /// addresses: of several with the same one it takes a primary for a replica that is no longer there, and
    /// waits for its own connections to be gone.
    pub fn sees_one(self, alike: bool) -> bool {
        alike && self == Reader::Java
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Shown<'_> = Shown {
        path: "/RPC2",
        agent: "",
        is_latin: false,
        method: "group.lookup_servers",
        params: 1,
        has_sync: false,
    };

    #[test]
    fn clients_show_what_they_read() {
        let form = |shown: Shown<'_>| shown.form(Replies::Auto);
        assert_eq!(form(NOBODY), Form::Packet);
        let php = Shown {
            is_latin: true,
            ..NOBODY
        };
        assert_eq!(form(php), Form::Flat);
        let dump = Shown {
            method: "dump.servers",
            params: 0,
            ..NOBODY
        };
        assert_eq!(form(dump), Form::Flat);
        let java = Shown {
            agent: "MySQL XML-RPC",
            path: "/",
            ..dump
        };
        assert_eq!(
            (form(java), java.reader(form(java))),
            (Form::Packet, Reader::Java)
        );
        let named = Shown {
            path: "/1.4.2/RPC2",
            ..java
        };
        assert_eq!(form(named), Form::Named);
        assert_eq!(php.form(Replies::Always(Form::Packet)), Form::Packet);
    }

    #[test]
    fn clients_are_told_the_servers_that_they_can_take() {
        use farm::samples::server;

        let mut servers: Vec<_> = (1..=12)
            .map(|id| server(id, "g", Status::Replica))
            .collect();
        servers[10].status = Status::Primary;
        let long = "h".repeat(MYSQLND_HOST_BYTES_MAX + 1);
        let told = |reader: Reader, alike: bool| {
            let host = |at: usize| if at == 0 { long.as_str() } else { "h" };
            let all = servers.iter().enumerate();
            let all = all.map(|(at, server)| (server, host(at))).collect();
            reader
                .servers(all, alike)
                .iter()
                .map(|(it, _)| it.id.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(Reader::Other, true).len(), 12);
        assert_eq!(told(Reader::Mysqlnd, false), [11, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(told(Reader::Java, false).len(), 12);
        assert_eq!(told(Reader::Java, true), [11]);
        assert_eq!(Reader::Mysqlnd.mode(Mode::WriteOnly), Mode::ReadWrite);
        assert_eq!(Reader::Java.mode(Mode::WriteOnly), Mode::WriteOnly);
    }

    #[test]
    fn maps_are_hidden_from_clients_that_die_of_them() {
        let map = |kind, bound: i128| ShardMap {
            id: 1,
            kind,
            global_group: "g".into(),
            shards: vec![farm::shard::Shard {
                id: 1,
                group: "g".into(),
                bound: Bound::Lower(Key::Int(bound)),
                enabled: true,
            }],
            slots: Vec::new(),
        };
        let all = [Reader::Mysqlnd, Reader::Java, Reader::Other];
        let kinds = |map: &ShardMap| all.map(|reader| reader.kind(map));
        let range = Some("RANGE");
        assert_eq!(kinds(&map(ShardKind::RangeInteger, 1)), [range; 3]);
        assert_eq!(kinds(&map(ShardKind::Range, 1 << 40)), [None, None, range]);
        assert_eq!(
            kinds(&map(ShardKind::Hash, 1)),
            [None, Some("HASH"), Some("HASH")]
        );
        let strings = kinds(&map(ShardKind::RangeString, 1));
        assert_eq!(strings, [None, None, Some("RANGE_STRING")]);
        assert_eq!(kinds(&map(ShardKind::Slots, 1)), [None; 3]);
        assert_eq!(kinds(&map(ShardKind::List, 1)), [None; 3]);
    }
}
