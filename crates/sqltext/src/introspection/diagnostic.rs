//! SHOW WARNINGS and its kin, read closer.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;

/// What a SHOW of diagnostics wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShowDiagnostics {
    /// Errors only.
    pub errors: bool,
    /// Their number, not their text.
    pub count: bool,
    pub offset: u64,
    pub rows: u64,
}

/// Reads `SHOW WARNINGS | ERRORS [LIMIT [offset,] rows]` and `SHOW COUNT(*) WARNINGS | ERRORS`.
/// `None` for anything else.
pub fn show_diagnostics(text: &[u8], mode: &Mode) -> Option<ShowDiagnostics> {
    let mut lexer = Lexer::new(text, mode);
    if lexer.next().kw != Kw::SHOW {
        return None;
    }
    let mut token = lexer.next();
    let count = token.kw == Kw::COUNT;
    if count {
        let call = [lexer.next(), lexer.next(), lexer.next()];
        if call[0].kind != Kind::Open || call[2].kind != Kind::Close {
            return None;
        }
        token = lexer.next();
    }
    let errors = token.kw == Kw::ERRORS;
    if !errors && token.kw != Kw::WARNINGS {
        return None;
    }
    let mut wanted = ShowDiagnostics {
        errors,
        count,
        offset: 0,
        rows: u64::MAX,
    };
    token = lexer.next();
    if token.kw == Kw::LIMIT && !count {
        wanted.rows = number(text, &lexer.next())?;
        token = lexer.next();
        let comma = token.kind == Kind::Comma;
        if comma || token.bytes(text).eq_ignore_ascii_case(b"offset") {
            let second = number(text, &lexer.next())?;
            (wanted.offset, wanted.rows) = match comma {
                true => (wanted.rows, second),
                false => (second, wanted.rows),
            };
            token = lexer.next();
        }
    }
    if token.kind == Kind::Semicolon {
        token = lexer.next();
    }
    (token.kind == Kind::End).then_some(wanted)
}

fn number(text: &[u8], token: &Token) -> Option<u64> {
    let span = Span {
        start: token.start,
        end: token.end,
    };
    str::from_utf8(span.of(text)).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    #[test]
    fn every_form_is_read() {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let read = |text: &str| {
            show_diagnostics(text.as_bytes(), &mode)
                .map(|show| (show.errors, show.count, show.offset, show.rows))
        };
        assert_eq!(read("SHOW WARNINGS"), Some((false, false, 0, u64::MAX)));
        assert_eq!(read("show errors limit 5;"), Some((true, false, 0, 5)));
        assert_eq!(read("SHOW WARNINGS LIMIT 2, 3"), Some((false, false, 2, 3)));
        assert_eq!(
            read("SHOW WARNINGS LIMIT 3 OFFSET 2"),
            Some((false, false, 2, 3))
        );
        assert_eq!(
            read("SHOW COUNT(*) ERRORS"),
            Some((true, true, 0, u64::MAX))
        );
        for other in [
            "SHOW TABLES",
            "SHOW WARNINGS LIMIT ?",
            "SELECT 1",
            "SHOW WARNINGS x",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
