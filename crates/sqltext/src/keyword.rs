//! The words that mean something here, found by hash in one probe.
//!
//! Reserved words of both servers are folded in the digest, since no unquoted name can be one of
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
        CURSOR DATABASE DATABASES DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE
        DEFAULT DELAYED DELETE DESC DESCRIBE DETERMINISTIC DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL
        EACH ELSE ELSEIF ENCLOSED ESCAPED EXISTS EXIT EXPLAIN FALSE FETCH FLOAT FLOAT4 FLOAT8 FORCE
        FOREIGN FROM FULLTEXT GRANT GROUP HAVING HIGH_PRIORITY HOUR_MICROSECOND HOUR_MINUTE
        HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE INSERT INT INT1 INT2 INT3 INT4
        INT8 INTEGER INTERVAL IS ITERATE JOIN KEY KEYS KILL LEADING LEAVE LEFT LIKE LIMIT LINEAR
        LINES LOAD LOCALTIME LOCALTIMESTAMP LONG LONGBLOB LONGTEXT LOOP LOW_PRIORITY MATCH
        MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD
        MODIFIES NATURAL NOT NO_WRITE_TO_BINLOG NULL NUMERIC ON OPTIMIZE OPTIONALLY OR ORDER OUT
        OUTER OUTFILE PRECISION PRIMARY PURGE RANGE READ READS READ_WRITE REAL REFERENCES REGEXP
        RELEASE RENAME REPEAT REPLACE REQUIRE RESIGNAL RESTRICT RETURN REVOKE RIGHT RLIKE SCHEMA
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
        AGGREGATE ANY ATOMIC BACKUP BEGIN BINLOG BODY CACHE CHAIN CHARSET CHECKSUM CLONE COMMIT
        CONCURRENT CONNECTION CONSISTENT COUNT DATA DEALLOCATE DEFINER DIAGNOSTICS DO ERRORS
        ERROR_COUNT EVENT EXECUTE EXTENDED FLUSH FORMAT FUNCTION GET GLOBAL HANDLER HARD HEDDLE HELP
        ID IDENTITY IMMEDIATE IMPORT INSTALL INSTANCE LOCAL MASTER NAMES NEXT NO ONLY PACKAGE
        PARTITIONS PASSWORD PERSIST PERSIST_ONLY PREPARE PREVIOUS QUERY REPAIR REPLICA RESET RESOURCE
        RESTART ROLE ROLLBACK ROW SAVEPOINT SESSION SHUTDOWN SLAVE SNAPSHOT SOFT STAGE START
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
    #[inline]
    pub fn find(word: &[u8]) -> Kw {
        if word.len() < 2 || word.len() > LENGTH_MAX {
            return Kw::NONE;
        }
        let ends = Ends::of(word).lowered();
        let mut slot = ends.slot();
        loop {
            let number = TABLE.slots[slot] as usize;
            if number == 0 {
                return Kw::NONE;
            }
            let known = &TABLE.ends[number];
            if known.first == ends.first && known.last == ends.last && known.len == ends.len {
                let middle_agrees =
                    word.len() <= 16 || word.eq_ignore_ascii_case(TEXTS[number].as_bytes());
                if middle_agrees {
                    return ALL[number];
                }
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

/// The first and last eight bytes of a word and its length: the whole word up to 16 bytes. Shorter
/// words are packed so that every byte lies in `first`.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub first: u64,
    pub last: u64,
    pub len: u32,
}

impl Ends {
    #[inline]
    pub const fn of(word: &[u8]) -> Ends {
        let len = word.len();
        let (first, last) = if len >= 8 {
            (load8(word, 0), load8(word, len - 8))
        } else if len >= 4 {
            (load4(word, 0) | load4(word, len - 4) << 32, 0)
        } else if len > 0 {
            let (a, b, c) = (word[0], word[len / 2], word[len - 1]);
            (a as u64 | (b as u64) << 8 | (c as u64) << 16, 0)
        } else {
            (0, 0)
        };
        Ends {
            first,
            last,
            len: len as u32,
        }
    }

    #[inline]
    const fn lowered(self) -> Ends {
        Ends {
            first: lower8(self.first),
            last: lower8(self.last),
            len: self.len,
        }
    }

    #[inline]
    const fn slot(self) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(23) ^ self.len as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - SLOT_BITS)) as usize
    }
}

#[inline]
pub(crate) const fn load8(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes([
        bytes[at],
        bytes[at + 1],
        bytes[at + 2],
        bytes[at + 3],
        bytes[at + 4],
        bytes[at + 5],
        bytes[at + 6],
        bytes[at + 7],
    ])
}

#[inline]
const fn load4(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as u64
}

/// ASCII capitals of eight bytes at once in lower case; every other byte stays.
#[inline]
const fn lower8(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7F * ONES);
    let from_a = low + (0x80 - b'A' as u64) * ONES;
    let after_z = low + (0x7F - b'Z' as u64) * ONES;
    let ascii = !word & (0x80 * ONES);
    word | ((from_a ^ after_z) & ascii) >> 2
}

const SLOT_BITS: u32 = 11;
const SLOTS: usize = 1 << SLOT_BITS;
const LENGTH_MAX: usize = 33;

struct Table {
    slots: [u16; SLOTS],
    ends: [Ends; WORDS],
}

static TABLE: Table = build();

const fn build() -> Table {
    let mut table = Table {
        slots: [0; SLOTS],
        ends: [Ends {
            first: 0,
            last: 0,
            len: 0,
        }; WORDS],
    };
    let mut number = 1;
    while number < WORDS {
        let text = TEXTS[number].as_bytes();
        assert!(text.len() >= 2 && text.len() <= LENGTH_MAX);
        let ends = Ends::of(text).lowered();
        let mut slot = ends.slot();
        while table.slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table.slots[slot] = number as u16;
        table.ends[number] = ends;
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
    fn lowering_touches_capitals_only() {
        let bytes: Vec<u8> = (0..=255).collect();
        for chunk in bytes.chunks(8) {
            let expected = load8(&chunk.to_ascii_lowercase(), 0);
            assert_eq!(lower8(load8(chunk, 0)), expected);
        }
    }
}
