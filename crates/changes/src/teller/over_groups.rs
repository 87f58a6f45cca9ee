//! A transaction over several groups as one: the lines of its coordinator group, and those of the other groups'
//! branches in front of its end.
//!
//! One teller has the transaction, and the tellers of the other groups tell the branches. The number of a change goes on
//! from one to the next.

use farm::dist_txn::GlobalId;

use super::{Current, Origin, Progress, Teller, Told};
use crate::event::Logged;
use crate::gtid::Gtid;
use crate::replication::Filter;

/// The part of a transaction that a branch is.
#[derive(Clone, Debug)]
pub struct BranchOf<'a> {
    /// The transaction that prepared it.
    pub gtid: &'a Gtid,
    pub logged: Logged,
    pub id: &'a GlobalId,
    /// How far the transaction was told in front of it.
    pub so_far: Progress,
    /// So many changes of the whole transaction were told before.
    pub skip: u32,
}

impl<F: Filter> Teller<F> {
    /// A transaction over these groups begins, which this teller's group has decided. As [`Teller::begin`].
    pub fn begin_over_groups(
        &mut self,
        (gtid, logged): (&Gtid, Logged),
        id: &GlobalId,
        groups: Vec<String>,
        told: Option<u32>,
    ) {
        self.begin(gtid, logged, None, told);
        self.current.xid = Some(id.to_string());
        self.current.groups = groups;
    }

    /// Tells that the transaction has begun, unless it was told, in front of a branch's lines.
    pub fn announce(&mut self, index: u32, out: &mut Vec<Told>) {
        self.ensure_begun(index, out);
    }

    /// How far the transaction has been told.
    pub fn progress(&self) -> &Progress {
        &self.current.so_far
    }

    /// A branch of a transaction that another teller has begun.
    pub fn begin_branch(&mut self, branch: BranchOf<'_>) {
        self.current = Current {
            gtid: branch.gtid.to_string(),
            logged: branch.logged,
            origin: Origin::of(branch.gtid),
            xid: Some(branch.id.to_string()),
            so_far: branch.so_far,
            skip: branch.skip,
            begun: true,
            ..Current::default()
        };
    }

    /// The branch is over; gives how far the transaction has been told with it.
    pub fn end_branch(&mut self) -> Progress {
        std::mem::take(&mut self.current).so_far
    }

    /// The transaction goes on behind a branch that another teller told.
    pub fn go_on_behind(&mut self, so_far: Progress) {
        self.current.so_far = so_far;
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;
    use farm::ServerId;
    use farm::dist_txn::{Place, RouterLife};

    use super::*;
    use crate::event::Statement;
    use crate::teller::Wanted;
    use crate::transactions::Part;

    fn part(text: &str) -> Part {
        Part::Statement(Statement {
            database: "d".to_owned(),
            text: text.as_bytes().to_vec(),
            ..Statement::default()
        })
    }

    /// The events and numbers of one transaction with a branch.
    fn told(before: Option<u32>, own: &[Part]) -> Vec<(String, Option<u32>)> {
        let (mut teller, mut other) = (
            Teller::new("g", Wanted::default()),
            Teller::new("h", Wanted::default()),
        );
        let gtid = |text| Gtid::parse(Engine::MariaDb, text).expect("a GTID");
        let id = GlobalId {
            farm: 1,
            coordinator: 1,
            at_ms: 1,
            router: RouterLife {
                slot: 0,
                started_ms: 1,
            },
            sequence: 1,
            at: Place {
                server: ServerId(1),
                connection: 1,
            },
        };
        let mut out = Vec::new();
        let groups = vec!["g".to_owned(), "h".to_owned()];
        teller.begin_over_groups((&gtid("0-1-5"), 9.into()), &id, groups, before);
        for part in own {
            teller.part(part, &mut out).expect("it can be told");
        }
        other.begin_branch(BranchOf {
            gtid: &gtid("1-2-7"),
            logged: 8.into(),
            id: &id,
            so_far: teller.progress().clone(),
            skip: before.unwrap_or(0),
        });
        let mut of_branch = Vec::new();
        for text in ["TRUNCATE a", "TRUNCATE b"] {
            other
                .part(&part(text), &mut of_branch)
                .expect("it can be told");
        }
        if !of_branch.is_empty() {
            teller.announce(teller.progress().index, &mut out);
        }
        out.extend(of_branch);
        teller.go_on_behind(other.end_branch());
        out.extend(teller.end());
        for it in &out {
            assert!(it.line.contains(&format!("\"xid\":\"{id}\"")), "{it:?}");
        }
        let event = |it: Told| {
            let value: serde_json::Value =
                serde_json::from_str(&format!("{{{}}}", it.line)).expect("JSON");
            let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
            let shown = format!("{} {} {}", text("event"), text("group"), text("gtid"));
            (shown, it.index)
        };
        out.into_iter().map(event).collect()
    }

    #[test]
    fn branches_are_told_in_front_of_the_end() {
        let whole = told(None, &[part("TRUNCATE t")]);
        let expected = [
            ("begin g 0-1-5".to_owned(), Some(0)),
            ("ddl g 0-1-5".to_owned(), Some(1)),
            ("ddl h 1-2-7".to_owned(), Some(2)),
            ("ddl h 1-2-7".to_owned(), Some(3)),
            ("commit g 0-1-5".to_owned(), None),
        ];
        assert_eq!(whole, expected);
        for (count, rest) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
            assert_eq!(told(Some(count), &[part("TRUNCATE t")]), expected[rest..]);
        }
        // The coordinator group itself has nothing to tell.
        let rest = told(None, &[]);
        assert_eq!(rest[0], ("begin g 0-1-5".to_owned(), Some(0)));
        assert_eq!(rest.len(), 4);
    }
}
