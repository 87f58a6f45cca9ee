//! The few statements that clients send: `CALL group.command(…)` above all. Everything else is answered OK,
//! as Fabric does, since drivers set variables before they ask.

use crate::value::Value;

/// What a statement asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `CALL group.command(1, 'two', name='three')`.
    Call { method: String, params: Vec<Value> },
    /// `SET format='json'`, or another format.
    Format { json: bool },
    /// `SELECT … FROM INFORMATION_SCHEMA.ROUTINES`: which commands there are.
    Routines,
    /// `SHOW CREATE PROCEDURE group.command`: how one is called.
    Help(String),
    /// Whatever else.
    Other,
}

/// Reads a statement.
///
/// # Errors
/// It is a CALL that cannot be read; what is wrong with it.
pub fn read(text: &str) -> Result<Statement, String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    if let Some(rest) = after(text, &["CALL"]) {
        return call(rest);
    }
    if let Some(rest) = after(text, &["SHOW", "CREATE", "PROCEDURE"]) {
        return Ok(Statement::Help(rest.replace('`', "").trim().to_owned()));
    }
    if let Some(rest) = after(text, &["SET"]) {
        let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
        let name = name.trim().trim_start_matches('@');
        if name.eq_ignore_ascii_case("format") {
            let value = value.trim().trim_matches(['\'', '"']);
            let json = value.eq_ignore_ascii_case("json");
            return Ok(Statement::Format { json });
        }
    }
    let is_routines = after(text, &["SELECT"]).is_some()
        && text
            .to_ascii_uppercase()
            .contains("INFORMATION_SCHEMA.ROUTINES");
    Ok(match is_routines {
        true => Statement::Routines,
        false => Statement::Other,
    })
}

/// What follows these words.
fn after<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    let mut rest = text;
    for word in words {
        let (head, tail) = rest.split_at_checked(word.len())?;
        let is_word = tail.starts_with(|c: char| c.is_ascii_whitespace());
        if !head.eq_ignore_ascii_case(word) || !is_word {
            return None;
        }
        rest = tail.trim_start();
    }
    Some(rest)
}

fn call(text: &str) -> Result<Statement, String> {
    let (name, rest) = text.split_once('(').unwrap_or((text, ")"));
    let method = name.replace('`', "").trim().to_owned();
    let mut reader = Reader { rest };
    let (mut params, mut named) = (Vec::new(), Vec::new());
    reader.blanks();
    if !reader.takes(')') {
        loop {
            match reader.param()? {
                (None, value) if named.is_empty() => params.push(value),
                (None, _) => return Err("a value without a name behind one with a name".to_owned()),
                (Some(name), value) => named.push((name, value)),
            }
            if reader.takes(')') {
                break;
            }
            if !reader.takes(',') {
                return Err(format!("`,` or `)` is missing before {:?}", reader.near()));
            }
        }
    }
    if !reader.rest.trim().is_empty() {
        return Err(format!("{:?} behind the call", reader.near()));
    }
    if !named.is_empty() {
        params.push(Value::Struct(named));
    }
    Ok(Statement::Call { method, params })
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.blanks();
        let found = self.rest.strip_prefix(wanted);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn near(&self) -> String {
        self.rest.chars().take(20).collect()
    }

    /// A value, or `name=value`.
    fn param(&mut self) -> Result<(Option<String>, Value), String> {
        self.blanks();
        if self.rest.starts_with(['\'', '"']) {
            return Ok((None, self.quoted()?.into()));
        }
        let word = self.word();
        if word.is_empty() {
            return Err(format!("a value is missing before {:?}", self.near()));
        }
        let is_quoted = self.rest.starts_with(['\'', '"']);
        if (word == "b" && is_quoted) || (word == "bytearray" && self.rest.starts_with('(')) {
            return Ok((None, self.bytes_of_python()?));
        }
        if !self.takes('=') {
            return Ok((None, bare(&word)));
        }
        self.blanks();
        let value = match self.rest.starts_with(['\'', '"']) {
            true => self.quoted()?.into(),
            false => bare(&self.word()),
        };
        Ok((Some(word), value))
    }

    /// What Connector/Python makes of each value under Python 3, where it prints bytes instead of writing
    /// them: `b'0'`, `bytearray(b"\'g1\'")`; behind the first word.
    fn bytes_of_python(&mut self) -> Result<Value, String> {
        let is_array = self.takes('(');
        if is_array && !self.takes('b') {
            return Err(format!("bytes are missing before {:?}", self.near()));
        }
        let text = self.quoted()?;
        if is_array && !self.takes(')') {
            return Err(format!("`)` is missing before {:?}", self.near()));
        }
        let mut inner = Reader { rest: &text };
        match inner.rest.starts_with(['\'', '"']) {
            true => Ok(inner.quoted()?.into()),
            false => Ok(bare(&text)),
        }
    }

    fn word(&mut self) -> String {
        let end = self
            .rest
            .find(|c: char| ",()='\"".contains(c) || c.is_ascii_whitespace());
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }

    /// A string; a quote in it is doubled, or stands behind a backslash.
    fn quoted(&mut self) -> Result<String, String> {
        let mut characters = self.rest.char_indices();
        let Some((_, quote @ ('\'' | '"'))) = characters.next() else {
            return Err(format!("a string is missing before {:?}", self.near()));
        };
        let mut text = String::new();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.extend(characters.next().map(|(_, escaped)| match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '0' => '\0',
                    other => other,
                })),
                _ if character == quote => {
                    let behind = &self.rest[at + 1..];
                    if !behind.starts_with(quote) {
                        self.rest = behind;
                        return Ok(text);
                    }
                    characters.next();
                    text.push(quote);
                }
                _ => text.push(character),
            }
        }
        Err(format!("the string {:?} has no end", self.near()))
    }
}

/// A value without quotes.
fn bare(word: &str) -> Value {
    match word.to_ascii_lowercase().as_str() {
        "null" | "none" => Value::Nil,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match word.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => word.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Vec<Value> {
        match read(text).expect(text) {
            Statement::Call { params, .. } => params,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn calls_are_read() {
        let call = read("call `group`.lookup_servers('g1');").expect("a call");
        let method = "group.lookup_servers".to_owned();
        let expected = Statement::Call {
            method,
            params: vec!["g1".into()],
        };
        assert_eq!(call, expected);
        assert_eq!(params("CALL dump.servers(0, '')"), [0i64.into(), "".into()]);
        assert_eq!(params("CALL manage.ping()"), []);
        assert_eq!(params("CALL manage.ping"), []);
        assert_eq!(params("CALL a.b(NULL, True, \"x\", -3, g1 )").len(), 5);
        assert_eq!(params(r"CALL a.b('it''s \'so\'')"), ["it's 'so'".into()]);
        let named = vec![("synchronous".to_owned(), Value::Bool(false))];
        let expected = ["g".into(), Value::Struct(named)];
        assert_eq!(
            params("CALL group.promote('g', synchronous = false)"),
            expected
        );
    }

    #[test]
    fn the_bytes_of_python_are_what_they_hold() {
        let written = r#"CALL dump.servers(b'0', bytearray(b"\'g1\'"))"#;
        assert_eq!(params(written), [0i64.into(), "g1".into()]);
        assert!(read("CALL a.b(bytearray(x))").is_err());
        assert!(read("CALL a.b(bytearray(b'x')").is_err());
    }

    #[test]
    fn other_statements_are_known() {
        assert_eq!(read("SET NAMES 'utf8'"), Ok(Statement::Other));
        assert_eq!(
            read("set format='JSON'"),
            Ok(Statement::Format { json: true })
        );
        assert_eq!(
            read("SET @@format = mysql"),
            Ok(Statement::Format { json: false })
        );
        let routines = "SELECT routine_name FROM information_schema.routines WHERE 1";
        assert_eq!(read(routines), Ok(Statement::Routines));
        let help = Statement::Help("group.add".to_owned());
        assert_eq!(read("show create procedure group.add"), Ok(help));
        assert_eq!(read("CALLS"), Ok(Statement::Other));
        assert_eq!(read("é"), Ok(Statement::Other));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for bad in [
            "CALL a.b(",
            "CALL a.b('x",
            "CALL a.b(1 2)",
            "CALL a.b(1) 2",
            "CALL a.b(x=1, 2)",
            "CALL a.b(,)",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
