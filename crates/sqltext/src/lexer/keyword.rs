//! The words that mean something here, found by hash in one probe.
//!
//! Reserved words of both servers are folded in the normal form, since no unquoted name can be one of
//! them. Every other word keeps its case there: names of tables may be case-sensitive.

/// Declares the keywords in groups; the groups are ranges of numbers, so that asking «reserved?»,
/// «watched?», «function?» is a comparison.
macro_rules! keywords {
    ($($group:ident { $($word:ident)* })*) => {
        /// A known word; `NONE` is every other one.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Kw { NONE, $($($word,)*)* }

        const ALL: &[Kw] = &[Kw::NONE, $($(Kw::$word,)*)*];
        const TEXTS: &[&str] = &["", $($(stringify!($word),)*)*];
        $(const $group: &[Kw] = &[$(Kw::$word,)*];)*
    };
}

keywords! {
    RESERVED {
        ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB
        BOTH BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT
        CONTINUE CONVERT CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER
        CURSOR DATABASES DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE
        DEFAULT DELAYED DELETE DESC DESCRIBE DETERMINISTIC DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL
        EACH ELSE ELSEIF ENCLOSED ESCAPED EXISTS EXIT EXPLAIN FALSE FETCH FLOAT FLOAT4 FLOAT8 FORCE
        FOREIGN FROM FULLTEXT GRANT GROUP HAVING HIGH_PRIORITY HOUR_MICROSECOND HOUR_MINUTE
        HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE INSERT INT INT1 INT2 INT3 INT4
        INT8 INTEGER INTERVAL IS ITERATE JOIN KEY KEYS KILL LEADING LEAVE LEFT LIKE LIMIT LINEAR
        LINES LOAD LOCALTIME LOCALTIMESTAMP LONG LONGBLOB LONGTEXT LOOP LOW_PRIORITY MATCH
        MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD
        MODIFIES NATURAL NOT NO_WRITE_TO_BINLOG NULL NUMERIC ON OPTIMIZE OPTIONALLY OR ORDER OUT
        OUTER OUTFILE PRECISION PRIMARY PURGE RANGE READ READS READ_WRITE REAL REFERENCES REGEXP
        RELEASE RENAME REPEAT REPLACE REQUIRE RESIGNAL RESTRICT RETURN REVOKE RIGHT RLIKE
        SCHEMAS SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET SHOW SIGNAL SMALLINT SPATIAL
        SPECIFIC SQL SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT SQL_SMALL_RESULT SSL STARTING
        STRAIGHT_JOIN TABLE TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO TRAILING TRIGGER TRUE UNDO
        UNION UNIQUE UNLOCK UNSIGNED USAGE USE USING UTC_DATE UTC_TIME UTC_TIMESTAMP VALUES
        VARBINARY VARCHAR VARCHARACTER VARYING WHEN WHERE WHILE WITH WRITE XOR YEAR_MONTH ZEROFILL
    }
    RESERVED_WATCHED { FOR INTO LOCK PROCEDURE SQL_CALC_FOUND_ROWS UPDATE }
    WATCHED {
        CURRVAL EXPORT INFORMATION_SCHEMA MYSQL NEXTVAL PERFORMANCE_SCHEMA SHARE SYS TEMPORARY
    }
    FUNCTION {
        CONNECTION_ID FOUND_ROWS GET_LOCK IS_FREE_LOCK IS_USED_LOCK LASTVAL LAST_INSERT_ID LOAD_FILE
        MASTER_GTID_WAIT MASTER_POS_WAIT RELEASE_ALL_LOCKS RELEASE_LOCK ROW_COUNT
        SERVICE_GET_READ_LOCKS SERVICE_GET_WRITE_LOCKS SERVICE_RELEASE_LOCKS SETVAL SOURCE_POS_WAIT
        WAIT_FOR_EXECUTED_GTID_SET WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS
    }
    PLAIN {
        AGGREGATE ATOMIC BACKUP BEGIN BINLOG BODY CACHE CHAIN CHARSET CHECKSUM CLONE COMMIT
        CONCURRENT CONNECTION CONSISTENT COUNT DATA DATABASE DEALLOCATE DEFINER DIAGNOSTICS DO ERRORS
        ERROR_COUNT EVENT EXECUTE EXTENDED FLUSH FORMAT FUNCTION GET GLOBAL HANDLER HARD HEDDLE HELP
        ID IDENTITY IMMEDIATE IMPORT INSTALL INSTANCE LOCAL MASTER NAMES NEXT NO ONLY PACKAGE
        PARTITIONS PASSWORD PERSIST PERSIST_ONLY PREPARE PREVIOUS QUERY REPAIR REPLICA RESET RESOURCE
        RESTART ROLE ROLLBACK ROW SAVEPOINT SCHEMA SESSION SHUTDOWN SLAVE SNAPSHOT SOFT STAGE START
        STATEMENT STOP TABLES TRANSACTION TRUNCATE UNINSTALL USER VALUE WARNINGS WARNING_COUNT WORK
        XA XML
    }
}

const LAST_RESERVED: u16 = (RESERVED.len() + RESERVED_WATCHED.len()) as u16;
const LAST_WATCHED: u16 = LAST_RESERVED + WATCHED.len() as u16;
const LAST_FUNCTION: u16 = LAST_WATCHED + FUNCTION.len() as u16;
const WORDS: usize = ALL.len();
const _: () = assert!(LAST_FUNCTION as usize + PLAIN.len() + 1 == WORDS);

impl Kw {
    /// No unquoted name can be this word, in either dialect.
    #[inline]
    pub fn is_reserved(self) -> bool {
        self as u16 <= LAST_RESERVED && self != Kw::NONE
    }

    /// The fact watcher wants to see it wherever it stands.
    #[inline]
    pub fn is_watched(self) -> bool {
        let number = self as u16;
        number > RESERVED.len() as u16 && number <= LAST_WATCHED
    }

    /// Means something when an opening parenthesis follows.
    #[inline]
    pub fn is_function(self) -> bool {
        let number = self as u16;
        (number > LAST_WATCHED && number <= LAST_FUNCTION) || self == Kw::NEXTVAL
    }

    /// A schema that holds the server's own affairs.
    pub fn is_server_schema(self) -> bool {
        matches!(
            self,
            Kw::INFORMATION_SCHEMA | Kw::PERFORMANCE_SCHEMA | Kw::MYSQL | Kw::SYS
        )
    }

    /// A value follows, so that a sign behind it belongs to a number.
    pub fn wants_value(self) -> bool {
        matches!(
            self,
            Kw::SELECT
                | Kw::WHERE
                | Kw::AND
                | Kw::OR
                | Kw::XOR
                | Kw::NOT
                | Kw::BETWEEN
                | Kw::WHEN
                | Kw::THEN
                | Kw::ELSE
                | Kw::LIMIT
                | Kw::BY
                | Kw::ON
                | Kw::HAVING
                | Kw::DIV
                | Kw::MOD
                | Kw::LIKE
                | Kw::INTERVAL
                | Kw::RETURN
        )
    }

    /// In upper case.
    pub fn text(self) -> &'static str {
        TEXTS[self as usize]
    }

    /// The keyword that `word` is, in any case.
    pub fn find(word: &[u8]) -> Kw {
        let kw = Kw::find_by_ends(Ends::of(word), word);
        let same = kw.text().as_bytes().eq_ignore_ascii_case(word);
        if same { kw } else { Kw::NONE }
    }

    /// As [`Kw::find`], where the word's ends are known already, and all its bytes may stand in names
    /// without quotes: only for such bytes is [`Ends::folded`] exact.
    #[inline(always)]
    pub(crate) fn find_by_ends(ends: Ends, word: &[u8]) -> Kw {
        let ends = ends.folded();
        let mut slot = ends.slot(word.len());
        loop {
            let number = TABLE.slots[slot % SLOTS] as usize;
            let known = &TABLE.known[number % KNOWN];
            if known.kw == Kw::NONE {
                return Kw::NONE;
            }
            let same = known.first == ends.first
                && known.last == ends.last
                && known.len as usize == word.len();
            if same && (word.len() <= 16 || middle_agrees(known.kw, word)) {
                return known.kw;
            }
            slot += 1;
        }
    }
}

#[cold]
fn middle_agrees(kw: Kw, word: &[u8]) -> bool {
    kw.text().as_bytes().eq_ignore_ascii_case(word)
}

/// The first and last eight bytes of a word. Words of up to eight bytes are wholly in `first`, with
/// zeros behind them, and `last` is zero.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ends {
    pub first: u64,
    pub last: u64,
}

impl Ends {
    #[inline]
    pub const fn of(word: &[u8]) -> Ends {
        let first = load_padded(word, 0);
        let last = if word.len() > 8 {
            load8(word, word.len() - 8)
        } else {
            0
        };
        Ends { first, last }
    }

    /// Without case: the bit that tells small letters from capitals is set in every byte. No two
    /// bytes of names fall together by that, apart from the letters.
    #[inline]
    const fn folded(self) -> Ends {
        const CASE: u64 = 0x2020_2020_2020_2020;
        Ends {
            first: self.first | CASE,
            last: self.last | CASE,
        }
    }

    #[inline]
    const fn slot(self, len: usize) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(23))
            .wrapping_add(len as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - SLOT_BITS)) as usize
    }
}

/// Eight bytes from `at` on, the first one lowest. They must be there.
#[inline]
pub(crate) const fn load8(bytes: &[u8], at: usize) -> u64 {
    match bytes.split_at(at).1.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => panic!("load8 behind the end"),
    }
}

/// Eight bytes from `at` on, zeros where the slice has ended.
#[inline]
pub(crate) const fn load_padded(bytes: &[u8], at: usize) -> u64 {
    let len = bytes.len();
    if at >= len {
        0
    } else if len - at >= 8 {
        load8(bytes, at)
    } else if len >= 8 {
        // The last eight bytes, shifted until `at` is the lowest.
        load8(bytes, len - 8) >> (8 * (at + 8 - len))
    } else {
        load_short(bytes, at)
    }
}

#[cold]
const fn load_short(bytes: &[u8], at: usize) -> u64 {
    let mut word = 0;
    let mut index = bytes.len();
    while index > at {
        index -= 1;
        word = word << 8 | bytes[index] as u64;
    }
    word
}

const SLOT_BITS: u32 = 11;
const SLOTS: usize = 1 << SLOT_BITS;
const LENGTH_MAX: usize = 33;

/// Room for all keywords, as a power of two so that no access needs a check.
const KNOWN: usize = 512;

struct Table {
    /// Numbers of keywords, at the place that their hash names or behind it; 0 is none.
    slots: [u16; SLOTS],
    known: [Known; KNOWN],
}

/// A keyword as it is compared.
#[derive(Clone, Copy)]
struct Known {
    first: u64,
    last: u64,
    len: u8,
    kw: Kw,
}

static TABLE: Table = build();

const fn build() -> Table {
    let none = Known {
        first: 0,
        last: 0,
        len: 0,
        kw: Kw::NONE,
    };
    let mut table = Table {
        slots: [0; SLOTS],
        known: [none; KNOWN],
    };
    let mut number = 1;
    while number < WORDS {
        let text = TEXTS[number].as_bytes();
        assert!(text.len() >= 2 && text.len() <= LENGTH_MAX);
        let Ends { first, last } = Ends::of(text).folded();
        let mut slot = Ends { first, last }.slot(text.len());
        while table.slots[slot % SLOTS] != 0 {
            slot += 1;
        }
        table.slots[slot % SLOTS] = number as u16;
        table.known[number] = Known {
            first,
            last,
            len: text.len() as u8,
            kw: ALL[number],
        };
        number += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (number, text) in TEXTS.iter().enumerate().skip(1) {
            assert_eq!(Kw::find(text.as_bytes()), ALL[number], "{text}");
            assert_eq!(
                Kw::find(text.to_lowercase().as_bytes()),
                ALL[number],
                "{text}"
            );
            assert_eq!(Kw::find(format!("{text}x").as_bytes()), {
                let longer = format!("{text}X");
                TEXTS
                    .iter()
                    .position(|t| *t == longer)
                    .map_or(Kw::NONE, |n| ALL[n])
            });
        }
    }

    #[test]
    fn near_misses_are_no_keywords() {
        for word in [
            "",
            "s",
            "selec",
            "get-lock",
            "GET\u{7f}LOCK",
            "wait_for_executed_gtid_sex",
        ] {
            assert_eq!(Kw::find(word.as_bytes()), Kw::NONE, "{word}");
        }
        // Only the middle differs, beyond the sixteen bytes that are compared as numbers.
        assert_eq!(Kw::find(b"wait_for_execxted_gtid_set"), Kw::NONE);
    }

    #[test]
    fn groups_are_disjoint_ranges() {
        assert!(Kw::ACCESSIBLE.is_reserved() && Kw::UPDATE.is_reserved());
        assert!(!Kw::SHARE.is_reserved() && !Kw::NONE.is_reserved());
        assert!(Kw::FOR.is_watched() && Kw::TEMPORARY.is_watched() && !Kw::ZEROFILL.is_watched());
        assert!(Kw::CONNECTION_ID.is_function() && Kw::NEXTVAL.is_function());
        assert!(!Kw::AGGREGATE.is_function() && !Kw::TEMPORARY.is_function());
    }

    #[test]
    fn folding_joins_letters_only() {
        let names: Vec<u8> = (0..=255)
            .filter(|byte| crate::lexer::byte::is_word(*byte))
            .collect();
        for a in &names {
            for b in names.iter().filter(|byte| byte.is_ascii()) {
                let folded = |byte: u8| Ends::of(&[byte]).folded().first;
                let same = a.eq_ignore_ascii_case(b);
                assert_eq!(folded(*a) == folded(*b), same, "{a:#x} {b:#x}");
            }
        }
    }
}
