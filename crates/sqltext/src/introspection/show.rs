//! SHOW STATUS and SHOW VARIABLES, and FLUSH STATUS, read closer.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;

/// What a SHOW of values wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShowValues {
    /// Status; else variables.
    pub status: bool,
    pub global: bool,
    pub filter: ShowFilter,
}

/// Which rows a SHOW wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShowFilter {
    All,
    /// Those whose names are like this; `None` where the pattern is not written plainly.
    Like(Option<Vec<u8>>),
    /// Those for which this expression is true; with the only names that can be, where it spells them
    /// out.
    Where(Span, Option<Vec<Vec<u8>>>),
}

impl ShowValues {
    /// The same SHOW without its filter.
    pub fn unfiltered(&self) -> String {
        let scope = if self.global { "GLOBAL" } else { "SESSION" };
        let what = if self.status { "STATUS" } else { "VARIABLES" };
        format!("SHOW {scope} {what}")
    }
}

/// Reads `SHOW [GLOBAL | SESSION | LOCAL] STATUS | VARIABLES [LIKE 'pattern' | WHERE expression]`.
/// `None` for anything else.
pub fn show_values(text: &[u8], mode: &Mode) -> Option<ShowValues> {
    let mut lexer = Lexer::new(text, mode);
    if lexer.next().kw != Kw::SHOW {
        return None;
    }
    let is = |token: &Token, word: &[u8]| {
        token.kind == Kind::Word && token.bytes(text).eq_ignore_ascii_case(word)
    };
    let mut token = lexer.next();
    let global = is(&token, b"global");
    if global || is(&token, b"session") || is(&token, b"local") {
        token = lexer.next();
    }
    let status = is(&token, b"status");
    if !status && !is(&token, b"variables") {
        return None;
    }
    token = lexer.next();
    let filter = if is(&token, b"like") {
        let pattern = lexer.next();
        token = lexer.next();
        ShowFilter::Like(plain(pattern.bytes(text)))
    } else if is(&token, b"where") {
        let start = token.end;
        let (mut end, mut names, mut place) = (start, Vec::new(), Some(Place::Term));
        token = lexer.next();
        while !matches!(token.kind, Kind::End | Kind::Semicolon) {
            end = token.end;
            place = place.and_then(|place| place.after(&token, text, &mut names));
            token = lexer.next();
        }
        let spelled = place == Some(Place::Or);
        ShowFilter::Where(Span { start, end }, spelled.then_some(names))
    } else {
        ShowFilter::All
    };
    if token.kind == Kind::Semicolon {
        token = lexer.next();
    }
    (token.kind == Kind::End).then_some(ShowValues {
        status,
        global,
        filter,
    })
}

/// What comes next in `Variable_name = 'a' OR Variable_name IN ('b', 'c')`, which is true for none but
/// these names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Term,
    Operator,
    Name,
    List,
    Listed,
    Separator,
    Or,
}

impl Place {
    /// The place behind a token; `None` where another one should stand.
    fn after(self, token: &Token, text: &[u8], names: &mut Vec<Vec<u8>>) -> Option<Place> {
        let is = |word: &[u8]| token.bytes(text).eq_ignore_ascii_case(word);
        Some(match self {
            Place::Term if is(b"variable_name") => Place::Operator,
            Place::Operator if is(b"=") => Place::Name,
            Place::Operator if is(b"in") => Place::List,
            Place::List if token.kind == Kind::Open => Place::Listed,
            Place::Name | Place::Listed if token.kind == Kind::Literal => {
                names.push(plain(token.bytes(text))?);
                match self {
                    Place::Name => Place::Or,
                    _ => Place::Separator,
                }
            }
            Place::Separator if token.kind == Kind::Comma => Place::Listed,
            Place::Separator if token.kind == Kind::Close => Place::Or,
            Place::Or if is(b"or") => Place::Term,
            _ => return None,
        })
    }
}

/// What is between the quotes of a literal without escapes.
fn plain(literal: &[u8]) -> Option<Vec<u8>> {
    let (quote @ (b'\'' | b'"'), rest) = literal.split_first()? else {
        return None;
    };
    let (last, inner) = rest.split_last()?;
    let escaped = inner.iter().any(|byte| byte == quote || *byte == b'\\');
    (last == quote && !escaped).then(|| inner.to_vec())
}

/// True for `FLUSH [LOCAL | NO_WRITE_TO_BINLOG] STATUS`, alone or among others: the counts of the
/// session begin anew.
pub fn flushes_status(text: &[u8], mode: &Mode) -> bool {
    let mut lexer = Lexer::new(text, mode);
    let first = lexer.next();
    if !first.bytes(text).eq_ignore_ascii_case(b"flush") {
        return false;
    }
    loop {
        let token = lexer.next();
        match token.kind {
            Kind::End | Kind::Semicolon => return false,
            _ if token.bytes(text).eq_ignore_ascii_case(b"status") => return true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    #[test]
    fn every_form_is_read() {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let read = |text: &str| show_values(text.as_bytes(), &mode);
        let all = read("SHOW STATUS;").expect("a SHOW");
        assert!(all.status && !all.global && all.filter == ShowFilter::All);
        let like = read("show /* c */ global variables like 'soc%'").expect("a SHOW");
        assert!(!like.status && like.global);
        assert_eq!(like.filter, ShowFilter::Like(Some(b"soc%".to_vec())));
        assert_eq!(like.unfiltered(), "SHOW GLOBAL VARIABLES");
        let odd = read(r"SHOW LOCAL STATUS LIKE 'a\_b'").expect("a SHOW");
        assert_eq!(odd.filter, ShowFilter::Like(None));
        let text = "SHOW STATUS WHERE Variable_name = 'a' OR 1 ;";
        match read(text).expect("a SHOW").filter {
            ShowFilter::Where(span, None) => {
                assert_eq!(span.of(text.as_bytes()), b" Variable_name = 'a' OR 1");
            }
            other => panic!("{other:?}"),
        }
        let spelled =
            read("SHOW VARIABLES WHERE Variable_name='a' OR variable_name in ('b', \"c\")");
        match spelled.expect("a SHOW").filter {
            ShowFilter::Where(_, Some(names)) => assert_eq!(names, [b"a", b"b", b"c"]),
            other => panic!("{other:?}"),
        }
        for condition in [
            "Variable_name = 'a' OR 'x' = 'x'",
            "Variable_name = 'a' 'b'",
            "Variable_name IN ('a') = Variable_name",
            "Variable_name = 'a' OR",
        ] {
            let show = read(&format!("SHOW VARIABLES WHERE {condition}")).expect("a SHOW");
            assert!(
                matches!(show.filter, ShowFilter::Where(_, None)),
                "{condition}"
            );
        }
        for text in [
            "SHOW TABLE STATUS",
            "SHOW STATUS LIKE 'a' 'b'",
            "SHOW MASTER STATUS",
            "SHOW",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn counts_that_begin_anew() {
        let mode = Mode::new(Dialect::MySql, 80_045);
        assert!(flushes_status(b"FLUSH STATUS", &mode));
        assert!(flushes_status(b"flush local hosts, status", &mode));
        assert!(!flushes_status(b"FLUSH TABLES; SELECT status", &mode));
    }
}
