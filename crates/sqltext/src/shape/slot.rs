//! The values of a text in order: literals and parameters' marks, which the shape takes for the
//! same. What is known of a text's shape names values by their place in this order.

use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer};
use crate::scan::Span;

/// A literal, or a parameter's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub span: Span,
    /// The number of the parameter, from 0; `None` for a literal.
    pub parameter: Option<u16>,
    /// Another literal follows it at once: they are one string.
    pub joined: bool,
}

/// The values of a text. Literals are those of [`crate::Scan::literals`].
pub fn slots(text: &[u8], mode: &Mode) -> Vec<Slot> {
    let mut lexer = Lexer::new(text, mode);
    let mut slots: Vec<Slot> = Vec::new();
    let (mut parameters, mut past) = (0u16, Kind::End);
    loop {
        let token = lexer.next();
        let parameter = match token.kind {
            Kind::End => return slots,
            Kind::Literal => None,
            Kind::Placeholder => {
                parameters = parameters.saturating_add(1);
                Some(parameters - 1)
            }
            kind => {
                past = kind;
                continue;
            }
        };
        if past == Kind::Literal
            && parameter.is_none()
            && let Some(before) = slots.last_mut()
        {
            before.joined = true;
        }
        past = token.kind;
        slots.push(Slot {
            span: Span {
                start: token.start,
                end: token.end,
            },
            parameter,
            joined: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    #[test]
    fn literals_and_marks_are_counted_together() {
        let text = "SELECT 'a' 'b', ?, -5 FROM t WHERE x = ? AND y = 7";
        let slots = slots(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100));
        let shown = slots.iter().map(|slot| {
            let text = String::from_utf8_lossy(slot.span.of(text.as_bytes()));
            format!("{text}{:?}{}", slot.parameter, u8::from(slot.joined))
        });
        assert_eq!(
            shown.collect::<Vec<_>>().join(" "),
            "'a'None1 'b'None0 ?Some(0)0 -5None0 ?Some(1)0 7None0"
        );
    }
}
