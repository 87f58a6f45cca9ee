//! Rows of a fragment as INSERTs into a scratch table, or as lines of a file that it reads.

use mysql_wire::Malformed;
use mysql_wire::result::TextRow;
use planner::{FIELD_END, Part, ROW_END, Written, put_field};
use sqltext::put_string;

use super::seen::Seen;

/// An INSERT is sent when it is as long; a row that is longer goes alone.
const INSERT_BYTES: usize = 1 << 20;

/// The same where a file may follow: servers read that faster than an INSERT, and it takes a trip more to begin.
const INSERT_BYTES_BEFORE_FILE: usize = 64 << 10;

/// So many bytes of a file are sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// So many values of a column are taken up.
const SEEN_MAX: usize = 100_000;

/// The rows of one table, as many as are sent at once.
pub struct Loader<'p> {
    pub part: &'p Part,
    text: Vec<u8>,
    /// Where the rows begin in the text.
    head: usize,
    /// An INSERT is no longer.
    insert_bytes: usize,
    /// Rows become lines of a file.
    is_file: bool,
    /// Values of columns that are taken up.
    pub seen: Vec<Seen>,
    /// Rows and their bytes so far.
    pub rows: u64,
    pub bytes: u64,
}

impl<'p> Loader<'p> {
    /// `before_file`: what is more than a short INSERT takes comes as a file.
    pub fn new(part: &'p Part, before_file: bool) -> Loader<'p> {
        let text = head(part);
        Loader {
            part,
            head: text.len(),
            text,
            insert_bytes: match before_file {
                true => INSERT_BYTES_BEFORE_FILE,
                false => INSERT_BYTES,
            },
            is_file: false,
            seen: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Rows from now on come as INSERTs after all. None waits to be sent.
    pub fn give_up_file(&mut self) {
        self.insert_bytes = INSERT_BYTES;
        self.is_file = false;
        self.text = head(self.part);
        self.head = self.text.len();
    }

    /// Rows from now on are lines of a file. None waits to be sent.
    pub fn begin_file(&mut self) {
        self.is_file = true;
        self.head = 0;
        self.text.clear();
    }

    /// Adds a text row. True when what waits is to be sent.
    ///
    /// # Errors
    /// The row is none of this table.
    pub fn add(&mut self, row: &[u8]) -> Result<bool, Malformed> {
        let (first, between, last): (&[u8], u8, u8) = match (self.is_file, self.is_empty()) {
            (true, _) => (b"", FIELD_END, ROW_END),
            (false, true) => (b"(", b',', b')'),
            (false, false) => (b",(", b',', b')'),
        };
        self.text.extend_from_slice(first);
        let mut values = TextRow::new(row);
        for (at, how) in self.part.columns.iter().enumerate() {
            if at > 0 {
                self.text.push(between);
            }
            let value = values.next().ok_or(Malformed {
                what: "a row with too few columns",
            })??;
            if let Some(value) = value {
                let seen = self.seen.iter_mut().filter(|it| it.column == at);
                seen.for_each(|it| it.add(value, SEEN_MAX));
            }
            match (self.is_file, value) {
                (true, value) => put_field(&mut self.text, how, value),
                (false, Some(value)) => write(&mut self.text, how, value),
                (false, None) => self.text.extend_from_slice(b"NULL"),
            }
        }
        if values.next().is_some() {
            return Err(Malformed {
                what: "a row with too many columns",
            });
        }
        self.text.push(last);
        self.rows += 1;
        self.bytes += row.len() as u64;
        Ok(self.is_full())
    }

    /// There are as many rows as are sent at once.
    pub fn is_full(&self) -> bool {
        let most = if self.is_file {
            PIECE_BYTES
        } else {
            self.insert_bytes
        };
        self.text.len() >= most
    }

    /// No row waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.text.len() == self.head
    }

    /// The INSERT, or the piece of the file.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its rows have been sent.
    pub fn clear(&mut self) {
        self.text.truncate(self.head);
    }
}

/// What an INSERT begins with.
fn head(part: &Part) -> Vec<u8> {
    format!("INSERT INTO {} VALUES ", part.into).into_bytes()
}

/// Writes a value as an expression. The text is read in a character set of single bytes and without
/// `NO_BACKSLASH_ESCAPES`.
fn write(out: &mut Vec<u8>, how: &Written, value: &[u8]) {
    match how {
        Written::Plain => out.extend_from_slice(value),
        Written::Quoted => put_string(value, false, out),
        Written::Text(charset) => {
            out.push(b'_');
            out.extend_from_slice(charset.as_bytes());
            put_string(value, false, out);
        }
        Written::Hex => {
            out.extend_from_slice(b"x'");
            for byte in value {
                let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
            out.push(b'\'');
        }
        Written::Seconds if value.iter().all(|byte| matches!(byte, b'0' | b'.')) => {
            out.extend_from_slice(b"'0000-00-00 00:00:00'");
        }
        Written::Seconds => {
            out.extend_from_slice(b"FROM_UNIXTIME(");
            out.extend_from_slice(value);
            out.push(b')');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_wire::result::encode_text_row;

    #[test]
    fn rows_become_inserts() {
        let part = Part {
            name: "`s`.t".to_owned(),
            create: String::new(),
            loose: None,
            sorts_keys: false,
            drop: String::new(),
            into: "`s`.t".to_owned(),
            load: None,
            is_temporary: true,
            columns: vec![
                Written::Plain,
                Written::Quoted,
                Written::Text("utf8mb4".to_owned()),
                Written::Seconds,
                Written::Hex,
            ],
        };
        let mut loader = Loader::new(&part, false);
        assert!(loader.is_empty());
        let mut row = Vec::new();
        let values: [Option<&[u8]>; 5] = [
            Some(b"-1.5"),
            Some(b"2024-01-01"),
            Some(b"it's \\ \0"),
            Some(b"0.000"),
            Some(b"\x00\xFF"),
        ];
        encode_text_row(&mut row, &values);
        assert_eq!(loader.add(&row), Ok(false));
        row.clear();
        encode_text_row(&mut row, &[None, None, None, Some(b"1.5"), Some(b"")]);
        assert_eq!(loader.add(&row), Ok(false));
        let expected = "INSERT INTO `s`.t VALUES \
            (-1.5,'2024-01-01',_utf8mb4'it''s \\\\ \\0','0000-00-00 00:00:00',x'00ff'),\
            (NULL,NULL,NULL,FROM_UNIXTIME(1.5),x'')";
        assert_eq!(String::from_utf8_lossy(loader.text()), expected);
        assert_eq!(loader.rows, 2);
        loader.clear();
        assert!(loader.is_empty());
        loader.begin_file();
        row.clear();
        encode_text_row(&mut row, &[None, None, None, Some(b"1.5"), Some(b"\t")]);
        assert_eq!(loader.add(&row), Ok(false));
        row.clear();
        encode_text_row(&mut row, &values);
        assert_eq!(loader.add(&row), Ok(false));
        let expected = b"\\N\t\\N\t\\N\t1970-01-01 00:00:01.5\t\\t\n\
            -1.5\t2024-01-01\tit's \\\\ \0\t0000-00-00 00:00:00\t\x00\xFF\n";
        assert_eq!(loader.text().escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(loader.rows, 4);
        loader.clear();
        assert!(loader.is_empty());
        loader.give_up_file();
        assert!(loader.is_empty());
        assert_eq!(loader.text(), b"INSERT INTO `s`.t VALUES ");
        row.clear();
        encode_text_row(&mut row, &[None]);
        assert!(loader.add(&row).is_err());
    }
}
