//! The tables about the farm, which clients of the SQL door read in the database [`DATABASE`]: names, columns, types.
//!
//! Job: say of each table which command has its rows, and what its columns are called and hold in SQL. A
//! command's own column names stand in JSON and on the command line; some of them are words of SQL, so a
//! column has a name of its own here.
//!
//! Invariants: a table has the rows of one command that changes nothing, and needs the right of that
//! command. `docs/FARM_TABLES.md` is made from these rows (a test compares them).
//!
//! Must not know: how a command is carried out, and how a statement is read.

mod rows;

pub use rows::TABLES;

/// The database that the tables are in. On the servers it has Heddle's own tables, under other names.
pub const DATABASE: &str = "heddle";

/// A table about the farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarmTable {
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// The words of the command that has the rows.
    pub command: &'static [&'static str],
    /// Only rows that have a value in this column of the command.
    pub with: Option<&'static str>,
    /// The column with the name of an account. Whoever lacks the command's right sees the rows of his own
    /// account; without such a column he sees none.
    pub owner: Option<&'static str>,
    pub columns: &'static [FarmColumn],
}

/// A column of such a table. Each may be NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarmColumn {
    pub name: &'static str,
    /// The command's name for it.
    pub from: &'static str,
    pub kind: FarmKind,
    /// What it says.
    pub about: &'static str,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarmKind {
    /// A whole number.
    Whole,
    /// A number with digits behind the point.
    Number,
    /// 0 or 1.
    Flag,
    /// At most [`TEXT_CHARACTERS_MAX`] characters; what is longer is cut.
    Text,
    /// A text of any length.
    Long,
    /// A moment in UTC, to the millisecond.
    Time,
}

/// The length of a column of [`FarmKind::Text`].
pub const TEXT_CHARACTERS_MAX: usize = 255;

impl FarmKind {
    /// The type as DESCRIBE shows it.
    pub fn sql(self) -> &'static str {
        match self {
            FarmKind::Whole => "bigint",
            FarmKind::Number => "double",
            FarmKind::Flag => "tinyint(1)",
            FarmKind::Text => "varchar(255)",
            FarmKind::Long => "longtext",
            FarmKind::Time => "datetime(3)",
        }
    }

    /// The word that information_schema has for it.
    pub fn data_type(self) -> &'static str {
        let sql = self.sql();
        sql.split_once('(').map_or(sql, |(word, _)| word)
    }

    /// Its values are characters.
    pub fn is_text(self) -> bool {
        matches!(self, FarmKind::Text | FarmKind::Long)
    }

    /// A command's value as SQL reads it; `None` for one that is no such value.
    pub fn value(self, said: &str) -> Option<String> {
        match self {
            FarmKind::Whole => said.parse::<i64>().ok().map(|number| number.to_string()),
            FarmKind::Number => {
                let number = said.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map(|number| number.to_string())
            }
            FarmKind::Flag => match said {
                "true" | "1" => Some("1".to_owned()),
                "false" | "0" => Some("0".to_owned()),
                _ => None,
            },
            FarmKind::Text => Some(said.chars().take(TEXT_CHARACTERS_MAX).collect()),
            FarmKind::Long => Some(said.to_owned()),
            FarmKind::Time => moment(said),
        }
    }
}

/// `2026-02-01T12:30:00.123Z` as SQL has it.
fn moment(said: &str) -> Option<String> {
    let said = said.strip_suffix('Z').unwrap_or(said);
    let (date, time) = said.split_once('T')?;
    let digits = |text: &str, length: usize, between: u8| {
        text.len() >= length
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || b == between || b == b'.')
    };
    let is_one = digits(date, 10, b'-') && digits(time, 8, b':');
    is_one.then(|| format!("{date} {time}"))
}

/// The table of this name, in any case of letters.
pub fn find(name: &str) -> Option<&'static FarmTable> {
    TABLES
        .iter()
        .find(|table| table.name.eq_ignore_ascii_case(name))
}

/// The rows of a command as those of the table. `columns` are the names of the answer's columns, which may
/// lack some: a router of another version has given it. `own`: only rows of this account.
pub fn rows_of(
    table: &FarmTable,
    columns: &[String],
    rows: &[Vec<Option<String>>],
    own: Option<&str>,
) -> Vec<Vec<Option<String>>> {
    let place = |name: &str| columns.iter().position(|it| it == name);
    let places: Vec<Option<usize>> = table.columns.iter().map(|it| place(it.from)).collect();
    let cell = |row: &[Option<String>], at: Option<usize>| row.get(at?)?.clone();
    let is_shown = |row: &&Vec<Option<String>>| {
        let with = table
            .with
            .is_none_or(|name| cell(row, place(name)).is_some_and(|value| !value.is_empty()));
        let mine = own.is_none_or(|own| {
            let owner = table.owner.and_then(|name| cell(row, place(name)));
            owner.is_some_and(|owner| owner == own)
        });
        with && mine
    };
    let taken = |row: &Vec<Option<String>>| {
        let cells = table.columns.iter().zip(&places);
        cells
            .map(|(column, at)| column.kind.value(&cell(row, *at)?))
            .collect()
    };
    rows.iter().filter(is_shown).map(taken).collect()
}

/// The CREATE TABLE that says what a table's columns are.
pub fn definition(table: &FarmTable) -> String {
    let quoted = |text: &str| text.replace('\'', "''");
    let column = |it: &FarmColumn| {
        format!(
            "  `{}` {} DEFAULT NULL COMMENT '{}'",
            it.name,
            it.kind.sql(),
            quoted(it.about)
        )
    };
    let columns: Vec<String> = table.columns.iter().map(column).collect();
    format!(
        "CREATE TABLE `{}` (\n{}\n) COMMENT='{}'",
        table.name,
        columns.join(",\n"),
        quoted(table.about)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words_that_need_no_quotes() {
        // Reserved by one of the engines.
        let reserved = [
            "check", "database", "default", "from", "group", "groups", "key", "order", "rows",
            "to", "when",
        ];
        let plain = |name: &str| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
        };
        for (at, table) in TABLES.iter().enumerate() {
            assert!(plain(table.name), "{}", table.name);
            assert!(
                TABLES[at + 1..]
                    .iter()
                    .all(|other| other.name != table.name),
                "{}",
                table.name
            );
            for (at, column) in table.columns.iter().enumerate() {
                let name = format!("{}.{}", table.name, column.name);
                assert!(
                    plain(column.name) && !reserved.contains(&column.name),
                    "{name}"
                );
                let later = &table.columns[at + 1..];
                assert!(
                    later.iter().all(|other| other.name != column.name),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn values_become_those_of_their_types() {
        let cases = [
            (FarmKind::Whole, "17", Some("17")),
            (FarmKind::Whole, "-", None),
            (FarmKind::Number, "1.5", Some("1.5")),
            (FarmKind::Number, "NaN", None),
            (FarmKind::Flag, "true", Some("1")),
            (FarmKind::Flag, "false", Some("0")),
            (
                FarmKind::Time,
                "2026-02-01T12:30:00.123Z",
                Some("2026-02-01 12:30:00.123"),
            ),
            (FarmKind::Time, "-", None),
            (FarmKind::Text, "ä", Some("ä")),
        ];
        for (kind, said, wanted) in cases {
            assert_eq!(kind.value(said).as_deref(), wanted, "{said}");
        }
        let long = "ä".repeat(300);
        assert_eq!(
            FarmKind::Text.value(&long).map(|text| text.chars().count()),
            Some(255)
        );
    }

    #[test]
    fn a_command_without_a_column_leaves_it_null_and_own_rows_are_told_apart() {
        let table = find("Sessions").expect("it is there");
        let columns = ["id", "user"].map(str::to_owned);
        let row = |id: &str, user: &str| vec![Some(id.to_owned()), Some(user.to_owned())];
        let all = [row("1", "app"), row("2", "root")];
        let shown = rows_of(table, &columns, &all, None);
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0].len(), table.columns.len());
        assert!(shown[0].iter().filter(|cell| cell.is_some()).count() == 2);
        let own = rows_of(table, &columns, &all, Some("app"));
        assert_eq!(own.len(), 1);
        assert_eq!(own[0][0].as_deref(), Some("1"));
        // Nobody's rows are what has no owner.
        let servers = find("servers").expect("it is there");
        assert_eq!(rows_of(servers, &columns, &all, Some("app")).len(), 0);
        // Sessions without a pin are no pins.
        let pins = find("pins").expect("it is there");
        assert_eq!(rows_of(pins, &columns, &all, None).len(), 0);
    }
}
