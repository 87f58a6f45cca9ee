//! Engines that keep no transactions: a transaction over several groups could not be undone there.

use super::Reader;

/// Those of both servers, in lower case.
const WITHOUT: [&str; 12] = [
    "archive",
    "aria",
    "blackhole",
    "connect",
    "csv",
    "federated",
    "heap",
    "memory",
    "merge",
    "mrg_myisam",
    "myisam",
    "s3",
];

impl Reader<'_> {
    /// Why a declared table cannot get the engine that the statement names.
    pub(super) fn without_transactions(&self, from: usize) -> Option<String> {
        let named = (from..self.words.len()).filter(|at| self.is(*at, "engine"));
        let mut engines = named.filter_map(|at| {
            // ENGINE = x, ENGINE x
            let name = self.text_of(at + 1).or_else(|| self.text_of(at + 2))?;
            WITHOUT.contains(&&*name.to_lowercase()).then_some(name)
        });
        engines.next().map(|engine| {
            format!(
                "{engine} keeps no transactions, and a transaction over several groups could not be \
                 undone there: sharded and global tables are InnoDB's"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::define::tests::told;

    #[test]
    fn declared_tables_keep_transactions() {
        for text in [
            "ALTER TABLE orders ENGINE=MyISAM",
            "ALTER TABLE shop.orders ADD c INT, ENGINE = `Aria`",
            "ALTER TABLE orders engine memory",
        ] {
            let why = told(text);
            assert!(why.contains("keeps no transactions"), "{text}: {why}");
        }
        for text in [
            "ALTER TABLE orders ENGINE=InnoDB",
            "ALTER TABLE orders ADD engine INT",
            "ALTER TABLE notes ENGINE=MyISAM",
        ] {
            assert_eq!(told(text), "g1 g2 g3", "{text}");
        }
    }
}
