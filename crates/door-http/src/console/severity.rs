//! How badly a group or a server fares, in one word and in sentences: what an engineer has to see first.

use farm::{Group, Server, Status};

/// A replica that is so late serves no reads for most applications, and a change of primary waits for it.
const LATE_US: u64 = 10_000_000;

/// The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Well,
    /// It does its work, with less behind it than there should be.
    Hurt,
    /// It does not do its work.
    Down,
}

impl Severity {
    /// The word in the picture.
    pub(super) fn name(self) -> &'static str {
        match self {
            Severity::Well => "well",
            Severity::Hurt => "hurt",
            Severity::Down => "down",
        }
    }
}

/// How a server fares, in words.
pub(super) fn of_server(server: &Server) -> (Severity, String) {
    let health = &server.health;
    let because = |what: &str, why: &str| match why.trim() {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    };
    if !health.alive {
        return (Severity::Down, because("does not answer", &health.error));
    }
    match (server.status, health.io_running, health.sql_running) {
        (Status::Faulty, ..) => (Severity::Down, "faulty: takes no part".to_owned()),
        (Status::Primary, ..) if health.read_only => {
            (Severity::Down, "alive, but read-only".to_owned())
        }
        (Status::Primary, ..) => (Severity::Well, "takes writes".to_owned()),
        (_, Some(true), Some(true)) => match server.lag_us() {
            Some(late) if late >= LATE_US => {
                let seconds = late / 1_000_000;
                (Severity::Hurt, format!("replicates, {seconds} s late"))
            }
            _ => (Severity::Well, "replicates".to_owned()),
        },
        (_, None, _) | (_, _, None) => (Severity::Hurt, "alive, but follows nobody".to_owned()),
        _ => {
            let why = format!("{} {}", health.io_error, health.sql_error);
            (Severity::Hurt, because("does not replicate", &why))
        }
    }
}

/// How a group fares, and why, the worst first.
pub(super) fn of_group(group: &Group) -> (Severity, Vec<String>) {
    let mut all: Vec<(Severity, String)> = Vec::new();
    match group.primary() {
        None if group.servers.is_empty() => all.push((Severity::Down, "it has no server".into())),
        None => all.push((Severity::Down, "it has no primary: writes wait".into())),
        Some(_) if group.paused => {
            let what = "its primary is being exchanged: writes wait".to_owned();
            all.push((Severity::Down, what));
        }
        Some(primary) if !primary.serves_writes() => {
            let (_, how) = of_server(primary);
            let what = format!("its primary {} {how}: writes wait", primary.name);
            all.push((Severity::Down, what));
        }
        Some(_) => {}
    }
    let takes_writes = |server: &Server| group.primary().is_some_and(|it| it.id == server.id);
    for server in group.servers.iter().filter(|it| !takes_writes(it)) {
        let (severity, how) = of_server(server);
        if severity > Severity::Well {
            // The group goes on without it.
            all.push((Severity::Hurt, format!("{} {how}", server.name)));
        }
    }
    if !group.active {
        let what = "it is inactive: nothing fails over by itself (`heddle group activate`)";
        all.push((Severity::Hurt, what.to_owned()));
    }
    all.sort_by(|(a, _), (b, _)| b.cmp(a));
    let worst = all
        .first()
        .map_or(Severity::Well, |(severity, _)| *severity);
    (worst, all.into_iter().map(|(_, what)| what).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use farm::{Engine, Health, Mode, ServerId};

    use super::*;

    /// A server that is well.
    pub(in super::super) fn server(number: u32, status: Status) -> Server {
        let is_primary = status == Status::Primary;
        Server {
            id: ServerId(number),
            uuid: format!("uuid-{number}").into(),
            name: format!("db{number}").into(),
            group: "g1".into(),
            host: "127.0.0.1".into(),
            port: 3306,
            status,
            mode: match is_primary {
                true => Mode::ReadWrite,
                false => Mode::ReadOnly,
            },
            weight: 1.0,
            engine: Engine::MariaDb,
            version: "10.11.6-MariaDB".into(),
            health: Health {
                alive: true,
                read_only: !is_primary,
                io_running: (!is_primary).then_some(true),
                sql_running: (!is_primary).then_some(true),
                error: String::new(),
                ..Health::unknown()
            },
            term: 0,
            key: None,
            fresh: Default::default(),
        }
    }

    /// A group of these.
    pub(in super::super) fn group(servers: Vec<Server>) -> Group {
        Group {
            name: "g1".into(),
            number: 1,
            kind: Default::default(),
            description: String::new(),
            active: true,
            paused: false,
            forks: Vec::new(),
            acks: Default::default(),
            servers: servers.into_iter().map(Arc::new).collect(),
        }
    }

    #[test]
    fn a_group_is_as_bad_as_the_worst_of_it() {
        let well = || vec![server(1, Status::Primary), server(2, Status::Replica)];
        assert_eq!(of_group(&group(well())), (Severity::Well, Vec::new()));

        let mut servers = well();
        servers[1].health.alive = false;
        servers[1].health.error = "connection refused".to_owned();
        let (severity, why) = of_group(&group(servers));
        assert_eq!(severity, Severity::Hurt);
        assert_eq!(why, ["db2 does not answer: connection refused"]);

        let mut servers = well();
        servers[0].health.alive = false;
        servers[1].health.sql_running = Some(false);
        servers[1].health.sql_error = "duplicate entry".to_owned();
        let (severity, why) = of_group(&group(servers));
        assert_eq!(severity, Severity::Down);
        assert_eq!(
            why,
            [
                "its primary db1 does not answer: writes wait",
                "db2 does not replicate: duplicate entry"
            ]
        );

        let (severity, why) = of_group(&Group {
            paused: true,
            ..group(well())
        });
        assert_eq!(severity, Severity::Down, "{why:?}");
        assert_eq!(of_group(&group(Vec::new())).0, Severity::Down);
        let (severity, _) = of_group(&group(vec![server(2, Status::Replica)]));
        assert_eq!(severity, Severity::Down, "without a primary");
        let (severity, why) = of_group(&Group {
            active: false,
            ..group(well())
        });
        assert_eq!(severity, Severity::Hurt, "{why:?}");
    }

    #[test]
    fn a_replica_that_is_very_late_hurts() {
        let mut late = server(2, Status::Replica);
        late.fresh.set_lag_us(Some(9_999_999));
        assert_eq!(of_server(&late).0, Severity::Well);
        late.fresh.set_lag_us(Some(12_300_000));
        assert_eq!(
            of_server(&late),
            (Severity::Hurt, "replicates, 12 s late".to_owned())
        );
        late.health.io_running = None;
        assert_eq!(of_server(&late).1, "alive, but follows nobody");
        late.status = Status::Faulty;
        assert_eq!(of_server(&late).0, Severity::Down);
    }
}
