//! A text's tokens in order, for those that take it apart at places which no clause tells.

use std::borrow::Cow;

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer};
use crate::scan::Span;
use crate::session_state::word::unquote;

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub kind: PieceKind,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// A name without quotes, or a word of the language that may be a name.
    Word,
    /// A word of the language that is no name.
    Reserved,
    /// A name in quotes.
    Quoted,
    /// A string, a number.
    Literal,
    /// `?`
    Placeholder,
    UserVariable,
    SystemVariable,
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
    Operator,
}

impl Piece {
    /// It is this word, in any case and without quotes.
    pub fn is(&self, text: &[u8], word: &str) -> bool {
        matches!(self.kind, PieceKind::Word | PieceKind::Reserved)
            && self.span.of(text).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The name that it is, without quotes; of what may be a name.
    pub fn name<'a>(&self, text: &'a [u8], mode: &Mode) -> Option<Cow<'a, [u8]>> {
        let named = matches!(self.kind, PieceKind::Word | PieceKind::Quoted);
        named.then(|| unquote(self.span.of(text), mode))
    }
}

/// The tokens of a text; `None` when it is not sure where they end. Comments are none, and what is in
/// an executable comment that counts is as if it stood outside.
pub fn pieces(text: &[u8], mode: &Mode) -> Option<Vec<Piece>> {
    let mut lexer = Lexer::new(text, mode);
    let mut found = Vec::new();
    loop {
        let token = lexer.next();
        let kind = match token.kind {
            Kind::End => return (!lexer.doubtful()).then_some(found),
            Kind::Word if token.kw != Kw::NONE && token.kw.is_reserved() => PieceKind::Reserved,
            Kind::Word => PieceKind::Word,
            Kind::Quoted => PieceKind::Quoted,
            Kind::Literal => PieceKind::Literal,
            Kind::Placeholder => PieceKind::Placeholder,
            Kind::UserVariable => PieceKind::UserVariable,
            Kind::SystemVariable => PieceKind::SystemVariable,
            Kind::Open => PieceKind::Open,
            Kind::Close => PieceKind::Close,
            Kind::Comma => PieceKind::Comma,
            Kind::Dot => PieceKind::Dot,
            Kind::Semicolon => PieceKind::Semicolon,
            Kind::Operator => PieceKind::Operator,
        };
        let span = Span {
            start: token.start,
            end: token.end,
        };
        found.push(Piece { kind, span });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    #[test]
    fn tokens_are_told_in_order() {
        let text = b"SELECT `a``b`.c, @x /* no */ FROM t WHERE d >= 'e' -- end";
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let all = pieces(text, &mode).expect("it ends");
        let kinds: Vec<PieceKind> = all.iter().map(|piece| piece.kind).collect();
        use PieceKind::{Comma, Dot, Literal, Operator, Quoted, Reserved, UserVariable, Word};
        assert_eq!(
            kinds,
            [
                Reserved,
                Quoted,
                Dot,
                Word,
                Comma,
                UserVariable,
                Reserved,
                Word,
                Reserved,
                Word,
                Operator,
                Literal
            ]
        );
        assert!(all[0].is(text, "select"));
        assert_eq!(all[1].name(text, &mode).as_deref(), Some(&b"a`b"[..]));
        assert_eq!(pieces(b"SELECT 'a", &mode), None);
    }
}
