//! The shard that a client chose for this statement and the next ones, as it said so.

/// What a session has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// `database.table`, or a table of the session's database.
    pub shard_table: String,
    pub shard_key: Option<String>,
    pub global_table: String,
    /// A choice came that cannot be read: no statement may run as if none had come.
    pub unread: bool,
}

impl Chosen {
    /// Nothing is chosen.
    pub fn is_empty(&self) -> bool {
        let named = !self.shard_table.is_empty() || !self.global_table.is_empty();
        self.shard_key.is_none() && !named && !self.unread
    }

    fn shard(table: &str, key: &str) -> Chosen {
        Chosen {
            shard_table: table.to_owned(),
            shard_key: Some(key.to_owned()),
            ..Chosen::default()
        }
    }

    pub fn global(table: &str) -> Chosen {
        Chosen {
            global_table: table.to_owned(),
            ..Chosen::default()
        }
    }

    /// A shard or the global group is named.
    pub fn chooses(&self) -> bool {
        self.shard_key.is_some() || !self.global_table.is_empty()
    }

    /// The variable that would be set by the choice.
    pub fn variable(&self) -> &'static str {
        match self.global_table.is_empty() {
            true => "heddle_shard_key",
            false => "heddle_global_table",
        }
    }
}

/// True for `HEDDLE SELECT ?`, to be prepared.
pub fn is_select(words: &[String]) -> bool {
    matches!(words, [verb, mark] if verb.eq_ignore_ascii_case("select") && mark == "?")
}

/// The choice that `HEDDLE SELECT SHARD 'table' 'key'` makes, or `HEDDLE SELECT GLOBAL 'table'`, by the
/// words behind SELECT.
pub fn choice_of(words: &[&str]) -> Option<Chosen> {
    match words {
        [kind, table, key] if kind.eq_ignore_ascii_case("shard") => Some(Chosen::shard(table, key)),
        [kind, table] if kind.eq_ignore_ascii_case("global") => Some(Chosen::global(table)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_from_its_words() {
        let shard = choice_of(&["SHARD", "shop.orders", "7"]).expect("a choice");
        assert_eq!(
            (shard.shard_table.as_str(), shard.shard_key.as_deref()),
            ("shop.orders", Some("7"))
        );
        assert!(shard.chooses() && !shard.is_empty());
        assert_eq!(shard.variable(), "heddle_shard_key");
        let global = choice_of(&["global", "shop.orders"]).expect("a choice");
        assert!(global.chooses());
        assert_eq!(global.variable(), "heddle_global_table");
        for odd in [&["shard", "t"][..], &["global"], &["t", "1"], &[]] {
            assert_eq!(choice_of(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_table_without_a_key_is_set_and_chooses_nothing() {
        let table = Chosen {
            shard_table: "shop.orders".to_owned(),
            ..Chosen::default()
        };
        assert!(!table.is_empty() && !table.chooses());
        assert!(Chosen::default().is_empty());
        let words = ["SELECT", "?"].map(str::to_owned);
        assert!(is_select(&words) && !is_select(&words[..1]));
    }
}
