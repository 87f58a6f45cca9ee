//! What accounts and roles may do on everything, as far as Heddle itself acts on it: seeing and ending
//! sessions of others, ending a server. It stands in the tables of privileges; no text of a server's is
//! taken apart for it.

use std::collections::{BTreeSet, HashMap};

use farm::{Engine, GlobalRights};
use mysql_async::Row;

use crate::link::text_at;

/// Bits of MariaDB's `mysql.global_priv`, as in its grant tables.
const SHUTDOWN: u64 = 1 << 7;
const PROCESS: u64 = 1 << 8;
const SUPER: u64 = 1 << 15;
const CONNECTION_ADMIN: u64 = 1 << 32;

pub(super) const RIGHTS_MARIADB: &str =
    "SELECT User, Host, JSON_VALUE(Priv, '$.access') FROM mysql.global_priv";

pub(super) const RIGHTS_MYSQL: &str = "SELECT u.User, u.Host, Process_priv = 'Y', Super_priv = 'Y' OR EXISTS \
     (SELECT 1 FROM mysql.global_grants AS g WHERE g.USER = u.User AND g.HOST = u.Host \
     AND g.PRIV = 'CONNECTION_ADMIN'), Shutdown_priv = 'Y', EXISTS (SELECT 1 FROM mysql.global_grants \
     AS s WHERE s.USER = u.User AND s.HOST = u.Host AND s.PRIV = 'SYSTEM_USER') FROM mysql.user AS u";

/// A role, and who has it.
pub(super) const EDGES_MARIADB: &str = "SELECT Role, '', User, Host FROM mysql.roles_mapping";
pub(super) const EDGES_MYSQL: &str =
    "SELECT FROM_USER, FROM_HOST, TO_USER, TO_HOST FROM mysql.role_edges";

/// MariaDB's role that everybody has.
const PUBLIC: &str = "PUBLIC";

/// User and host; the host of MariaDB's roles is empty.
type Name = (String, String);
/// What somebody may do by itself.
pub(super) type Rights = HashMap<Name, GlobalRights>;

/// The rights of accounts by themselves, and of roles with the roles that they have, from the answers to the engine's two
/// questions. Where the server refuses the first question, nobody has any rights.
pub(super) fn of(engine: Engine, rights: Option<Vec<Row>>, edges: Option<Vec<Row>>) -> Rights {
    let own = |[user, host, first, kill, shutdown, system]: [String; 6]| {
        let rights = match engine {
            Engine::MariaDb => of_bits(first.parse().unwrap_or(0)),
            Engine::MySql => GlobalRights {
                see: first == "1",
                kill: kill == "1",
                shutdown: shutdown == "1",
                system: system == "1",
            },
        };
        ((user, host), rights)
    };
    let own: Rights = cells(rights).map(own).collect();
    let edge = |[role, of, user, host]: [String; 4]| ((role, of), (user, host));
    let edges: Vec<(Name, Name)> = cells(edges).map(edge).collect();
    with_roles(&own, &edges)
}

/// The cells of rows, NULL as nothing; none where they were refused.
fn cells<const N: usize>(rows: Option<Vec<Row>>) -> impl Iterator<Item = [String; N]> {
    let cell = |row: &Row, at| {
        let there = at < row.len();
        there
            .then(|| text_at(row, at))
            .flatten()
            .unwrap_or_default()
    };
    let rows = rows.into_iter().flatten();
    rows.map(move |row| std::array::from_fn(|at| cell(&row, at)))
}

fn of_bits(access: u64) -> GlobalRights {
    GlobalRights {
        see: access & PROCESS != 0,
        kill: access & (SUPER | CONNECTION_ADMIN) != 0,
        shutdown: access & SHUTDOWN != 0,
        system: false,
    }
}

/// Adds to each role what the roles give that were granted to it, however far away; accounts have their roles
/// only while these are active.
fn with_roles(own: &Rights, edges: &[(Name, Name)]) -> Rights {
    let roles: BTreeSet<&Name> = edges.iter().map(|(role, _)| role).collect();
    let public = own.iter().find(|((user, _), _)| user == PUBLIC);
    let public = public.map_or_else(GlobalRights::default, |(_, rights)| *rights);
    let whole = |name: &Name| {
        let mut seen = BTreeSet::from([name]);
        let mut waiting = vec![name];
        let mut rights = public;
        while let Some(name) = waiting.pop() {
            rights = rights.and(own.get(name).copied().unwrap_or_default());
            if !roles.contains(name) {
                continue;
            }
            let given = edges.iter().filter(|(_, to)| to == name);
            waiting.extend(given.map(|(role, _)| role).filter(|role| seen.insert(role)));
        }
        rights
    };
    own.keys().map(|name| (name.clone(), whole(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_what_their_roles_give() {
        let name = |user: &str| (user.to_owned(), String::new());
        let own = [
            ("sees", PROCESS),
            ("kills", CONNECTION_ADMIN),
            ("user", 0),
            ("both", 0),
        ];
        let own: Rights = own.map(|(user, bits)| (name(user), of_bits(bits))).into();
        let edges = [
            (name("sees"), name("both")),
            (name("kills"), name("both")),
            // Round and round.
            (name("both"), name("kills")),
            (name("both"), name("user")),
        ];
        let all = with_roles(&own, &edges);
        let is = |user: &str| (all[&name(user)].see, all[&name(user)].kill);
        assert_eq!(is("both"), (true, true));
        assert_eq!(is("sees"), (true, false));
        assert_eq!(is("user"), (false, false), "its role may be inactive");
    }
}
