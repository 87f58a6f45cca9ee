//! Cuts the bytes of a file into rows and values exactly as the servers do it, quirks included, so that
//! what one server is given reads as it would within the whole file.

use std::ops::Range;

use sqltext::Mode;

/// How a file is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    field_end: Vec<u8>,
    line_end: Vec<u8>,
    line_start: Vec<u8>,
    enclosed: Option<u8>,
    escape: Option<u8>,
    /// Bytes that may mean something else than themselves.
    special: Box<[bool; 256]>,
    /// The same where only a line's end is looked for.
    ends: Box<[bool; 256]>,
    /// A line ends where its end stands, whatever the fields in front of it are.
    plain: bool,
}

/// More of the file is needed to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct More;

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// With what encloses it.
    pub whole: Range<usize>,
    enclosed: bool,
    /// It was opened and never closed.
    open: bool,
}

/// Where a row ends, and what was looked for in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub end: usize,
    /// Where its values begin.
    pub values: usize,
    /// The wanted fields; `None` for those that the row does not have.
    pub fields: [Option<Field>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Field,
    Line,
    File,
}

/// Whether a text stands at a place.
enum Stands {
    Yes,
    No,
    /// The bytes end within it.
    Unsure,
}

fn stands(bytes: &[u8], at: usize, what: &[u8], over: bool) -> Stands {
    let rest = &bytes[at..];
    match rest.len() < what.len() {
        false if rest.starts_with(what) => Stands::Yes,
        true if !over && what.starts_with(rest) => Stands::Unsure,
        _ => Stands::No,
    }
}

impl Format {
    /// The format that a statement asks for.
    ///
    /// # Errors
    /// Why rows cannot be found in such a file.
    pub fn of(load: &sqltext::Load, mode: &Mode) -> Result<Format, &'static str> {
        let or = |said: &Option<Vec<u8>>, usual: &[u8]| said.clone().unwrap_or(usual.to_vec());
        let field_end = or(&load.fields_end, b"\t");
        let line_end = or(&load.lines_end, b"\n");
        let line_start = or(&load.lines_start, b"");
        let enclosed = or(&load.enclosed, b"");
        let usual: &[u8] = if mode.no_backslash_escapes {
            b""
        } else {
            b"\\"
        };
        let escaped = or(&load.escaped, usual);
        if field_end.is_empty() {
            return Err("fields of fixed widths: say FIELDS TERMINATED BY");
        }
        if line_end.is_empty() || line_end == field_end {
            return Err("lines without an end of their own: say LINES TERMINATED BY");
        }
        let all = [&field_end, &line_end, &line_start, &enclosed, &escaped];
        if !all.iter().all(|it| it.is_ascii()) {
            return Err("separators beyond ASCII");
        }
        if enclosed.len() > 1 || escaped.len() > 1 {
            return Err("ENCLOSED BY and ESCAPED BY of more than one character");
        }
        let mut special = Box::new([false; 256]);
        let firsts = [&field_end, &line_end, &enclosed, &escaped];
        for byte in firsts.iter().filter_map(|it| it.first()) {
            special[usize::from(*byte)] = true;
        }
        let mut ends = Box::new([false; 256]);
        for byte in [&line_end, &escaped].iter().filter_map(|it| it.first()) {
            ends[usize::from(*byte)] = true;
        }
        Ok(Format {
            plain: enclosed.is_empty() && !field_end.contains(&line_end[0]),
            ends,
            enclosed: enclosed.first().copied(),
            escape: escaped.first().copied(),
            field_end,
            line_end,
            line_start,
            special,
        })
    }

    /// What stands between two values.
    pub fn separator(&self) -> &[u8] {
        &self.field_end
    }

    /// A number in digits is one value, whatever it is.
    pub fn holds_numbers(&self) -> bool {
        let digit = |bytes: &[u8]| bytes.first().is_some_and(u8::is_ascii_digit);
        let single = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        !(digit(&self.field_end)
            || digit(&self.line_end)
            || single(self.enclosed)
            || single(self.escape))
    }

    /// Where the line ends that begins, or goes on, at `at`; the file's end is one, too.
    pub fn line(&self, bytes: &[u8], mut at: usize, over: bool) -> Result<usize, More> {
        loop {
            let plain = bytes[at..]
                .iter()
                .position(|it| self.ends[usize::from(*it)]);
            match plain {
                Some(plain) => at += plain,
                None if over => return Ok(bytes.len()),
                None => return Err(More),
            }
            if self.escape == Some(bytes[at]) {
                match at + 1 < bytes.len() {
                    true => at += 2,
                    false if over => return Ok(bytes.len()),
                    false => return Err(More),
                }
                continue;
            }
            match stands(bytes, at, &self.line_end, over) {
                Stands::Yes => return Ok(at + self.line_end.len()),
                Stands::No => at += 1,
                Stands::Unsure => return Err(More),
            }
        }
    }

    /// The row at the front of `bytes`, which has so many values when it is whole; `wanted` are looked
    /// for. `None`: no row comes any more. `over`: the file ends with these bytes.
    pub fn row(
        &self,
        bytes: &[u8],
        over: bool,
        count: usize,
        wanted: [Option<usize>; 2],
    ) -> Result<Option<Row>, More> {
        let mut at = match self.line_start.is_empty() {
            true => 0,
            false => {
                let mut windows = bytes.windows(self.line_start.len());
                match windows.position(|it| it == self.line_start) {
                    Some(found) => found + self.line_start.len(),
                    None if over => return Ok(None),
                    None => return Err(More),
                }
            }
        };
        let mut row = Row {
            end: 0,
            values: at,
            fields: [None, None],
        };
        let last = wanted.iter().flatten().max().map_or(1, |last| last + 1);
        // What nobody looks for is passed over.
        let count = if self.plain { last.min(count) } else { count };
        for number in 0..count {
            if at == bytes.len() {
                return match (over, number) {
                    (false, _) => Err(More),
                    (true, 0) => Ok(None),
                    (true, _) => {
                        row.end = at;
                        Ok(Some(row))
                    }
                };
            }
            let (field, ended, next) = self.field(bytes, at, over)?;
            for (slot, wanted) in row.fields.iter_mut().zip(wanted) {
                if wanted == Some(number) {
                    *slot = Some(field.clone());
                }
            }
            at = next;
            if ended != Ended::Field {
                row.end = at;
                return Ok(Some(row));
            }
        }
        row.end = self.line(bytes, at, over)?;
        Ok(Some(row))
    }

    /// The value at `at`, how it ended, and where the next one begins.
    fn field(&self, bytes: &[u8], start: usize, over: bool) -> Result<(Field, Ended, usize), More> {
        let quoted = self.enclosed == Some(bytes[start]);
        let mut at = start + usize::from(quoted);
        let field = |end: usize, enclosed: bool| Field {
            whole: start..end,
            enclosed,
            open: quoted && !enclosed,
        };
        loop {
            let plain = bytes[at..]
                .iter()
                .position(|it| self.special[usize::from(*it)]);
            match plain {
                Some(plain) => at += plain,
                None if over => return Ok((field(bytes.len(), false), Ended::File, bytes.len())),
                None => return Err(More),
            }
            let (byte, next) = (bytes[at], bytes.get(at + 1).copied());
            if next.is_none() && !over {
                // A line's end of one byte needs no other behind it.
                let ends = !quoted && self.line_end == [byte] && self.escape != Some(byte);
                return match ends {
                    true => Ok((field(at, false), Ended::Line, at + 1)),
                    false => Err(More),
                };
            }
            if self.escape == Some(byte) {
                if next.is_none() {
                    return Ok((field(bytes.len(), false), Ended::File, bytes.len()));
                }
                if self.escape != self.enclosed || next == self.escape {
                    at += 2;
                    continue;
                }
            }
            if quoted {
                if self.enclosed != Some(byte) {
                    at += 1;
                    continue;
                }
                if next == self.enclosed {
                    at += 2;
                    continue;
                }
                let behind = at + 1;
                if next.is_none() {
                    return Ok((field(behind, true), Ended::File, behind));
                }
                if let Some((ended, next)) = self.end_of(bytes, behind, over)? {
                    return Ok((field(behind, true), ended, next));
                }
            } else if let Some((ended, next)) = self.end_of(bytes, at, over)? {
                return Ok((field(at, false), ended, next));
            }
            at += 1;
        }
    }

    /// What ends a value at `at`, and where the next one begins.
    fn end_of(&self, bytes: &[u8], at: usize, over: bool) -> Result<Option<(Ended, usize)>, More> {
        let ends = [
            (&self.line_end, Ended::Line),
            (&self.field_end, Ended::Field),
        ];
        for (what, ended) in ends {
            match stands(bytes, at, what, over) {
                Stands::Yes => return Ok(Some((ended, at + what.len()))),
                Stands::No => {}
                Stands::Unsure => return Err(More),
            }
        }
        Ok(None)
    }

    /// What a field stands for: NULL is the inner `None`, and the outer one a value that only a server
    /// understands.
    pub fn value(&self, bytes: &[u8], field: &Field) -> Option<Option<Vec<u8>>> {
        if field.open {
            return None;
        }
        let raw = match field.enclosed {
            true => &bytes[field.whole.start + 1..field.whole.end - 1],
            false => &bytes[field.whole.clone()],
        };
        if !field.enclosed && self.enclosed.is_some() && raw == b"NULL" {
            return Some(None);
        }
        if !field.enclosed && self.escape.is_none_or(|escape| !raw.contains(&escape)) {
            return Some(Some(raw.to_vec()));
        }
        let mut out = Vec::with_capacity(raw.len());
        let (mut at, mut null) = (0, false);
        while let Some(&byte) = raw.get(at) {
            let next = raw.get(at + 1).copied();
            let doubled = next == Some(byte);
            let escapes = self.escape == Some(byte) && (self.escape != self.enclosed || doubled);
            if let (true, Some(escaped)) = (escapes, next) {
                null |= escaped == b'N';
                out.push(meant(escaped));
                at += 2;
                continue;
            }
            out.push(byte);
            at += if field.enclosed && self.enclosed == Some(byte) && doubled {
                2
            } else {
                1
            };
        }
        Some((!(null && out.len() == 1)).then_some(out))
    }
}

/// What a letter behind the escape character stands for.
fn meant(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'0' => 0,
        b'Z' => 26,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::Dialect;

    fn format(clauses: &str) -> Format {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let text = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE t {clauses}");
        let load = sqltext::load(text.as_bytes(), &mode).expect("a LOAD DATA");
        Format::of(&load, &mode).expect("a format")
    }

    /// The first two values of each row of three, and the row itself, whole and byte by byte.
    fn rows(clauses: &str, file: &str) -> Vec<(String, String, String)> {
        let format = format(clauses);
        let cut = |more_at: usize| {
            let mut rows = Vec::new();
            let (mut from, mut have) = (0, more_at.min(file.len()));
            loop {
                let bytes = &file.as_bytes()[from..have];
                let over = have == file.len();
                match format.row(bytes, over, 3, [Some(0), Some(1)]) {
                    Err(More) => {
                        assert!(!over, "{file}");
                        have = (have + more_at).min(file.len());
                    }
                    Ok(None) => return rows,
                    Ok(Some(row)) => {
                        let value = |field: &Option<Field>| match field {
                            None => "absent".to_owned(),
                            Some(field) => match format.value(bytes, field) {
                                None => "odd".to_owned(),
                                Some(None) => "NULL".to_owned(),
                                Some(Some(value)) => String::from_utf8_lossy(&value).into_owned(),
                            },
                        };
                        let [one, two] = &row.fields;
                        let whole = String::from_utf8_lossy(&bytes[..row.end]).into_owned();
                        rows.push((value(one), value(two), whole));
                        from += row.end;
                    }
                }
            }
        };
        let whole = cut(usize::MAX);
        assert_eq!(cut(1), whole, "{file}");
        whole
    }

    fn two(rows: Vec<(String, String, String)>) -> Vec<String> {
        rows.into_iter()
            .map(|(a, b, _)| format!("{a}|{b}"))
            .collect()
    }

    #[test]
    fn the_usual_form() {
        let file = "1\ta\\tb\tx\n2\t\\N\tx\\\ny\n3\n\n5\tlast\tz\ttoo much\n6\tb";
        let cut = rows("", file);
        let whole: Vec<&str> = cut.iter().map(|row| &row.2[..]).collect();
        assert_eq!(whole.concat(), file);
        let expected = ["1|a\tb", "2|NULL", "3|absent", "|absent", "5|last", "6|b"];
        assert_eq!(two(cut), expected);
    }

    #[test]
    fn values_in_quotes() {
        let clauses =
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\r\\n'";
        let file = "1,\"a,\r\nb\",x\r\n\"2\",\"say \"\"x\"\" \\\"\",NULL\r\nNULL,\"NULL\",\r\n4,\"a\"b\",\r\n5,a\"b,\n\r\n";
        let expected = [
            "1|a,\r\nb",
            "2|say \"x\" \"",
            "NULL|NULL",
            "4|a\"b",
            "5|a\"b",
        ];
        let cut = two(rows(clauses, file));
        assert_eq!(cut[..2], expected[..2]);
        assert_eq!(cut[2], "NULL|NULL");
        assert_eq!(cut[3..], expected[3..]);
        assert_eq!(two(rows(clauses, "1,\"never closed,\r\n")), ["1|odd"]);
        // What is too much of a row is cut without regard to quotes.
        assert_eq!(
            two(rows(clauses, "1,2,3,\"a\r\nb\",5\r\n")),
            ["1|2", "b\"|5"]
        );
    }

    #[test]
    fn quotes_that_escape_themselves() {
        let clauses = "FIELDS TERMINATED BY ';' ENCLOSED BY '\"' ESCAPED BY '\"'";
        let file = "\"a\"\"b\";\"\\n\";c\n\"1\";\"x;y\n\";\n";
        assert_eq!(two(rows(clauses, file)), ["a\"b|\\n", "1|x;y\n"]);
    }

    #[test]
    fn lines_that_begin_with_something() {
        let clauses = "FIELDS TERMINATED BY ',' LINES STARTING BY '>>'";
        let file = "junk\n>>1,2,3\n>x>>4,5\nrest";
        let cut = rows(clauses, file);
        assert_eq!(cut[0].2, "junk\n>>1,2,3\n");
        assert_eq!(two(cut), ["1|2", "4|5"]);
    }

    #[test]
    fn ends_of_several_characters() {
        let clauses = "FIELDS TERMINATED BY '||' ESCAPED BY '' LINES TERMINATED BY '|\\n'";
        assert_eq!(two(rows(clauses, "a|b||c\\||d|\ne||f")), ["a|b|c\\", "e|f"]);
    }

    #[test]
    fn what_cannot_be_cut() {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        for clauses in [
            "FIELDS TERMINATED BY ''",
            "LINES TERMINATED BY ''",
            "FIELDS TERMINATED BY '\\n'",
            "FIELDS TERMINATED BY '§'",
            "FIELDS ENCLOSED BY '\"\"'",
        ] {
            let text = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE t {clauses}");
            let load = sqltext::load(text.as_bytes(), &mode).expect("a LOAD DATA");
            assert!(Format::of(&load, &mode).is_err(), "{clauses}");
        }
    }
}
