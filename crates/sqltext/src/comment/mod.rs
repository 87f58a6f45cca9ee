//! Comments: which ones the server skips, and which ones it executes; and what applications say in them of
//! themselves ([`Origin`]).

pub(crate) mod hint;
mod origin;

use crate::lexer::mode::{Dialect, Mode, Multibyte};

pub use origin::{Origin, SOURCE_TAG_BYTES_MAX, program_tag};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comment {
    /// No comment begins here.
    No,
    /// Everything up to `end` is skipped; `sure` is false when the text ends inside,
    /// or when only the charset could tell whether it begins at all.
    Ignored { end: usize, sure: bool },
    /// The text goes on at `body`; the `*/` to come is skipped as well.
    Executed { body: usize },
}

/// What begins at `at`.
pub(crate) fn at(text: &[u8], at: usize, mode: &Mode) -> Comment {
    let byte = |offset: usize| text.get(at + offset).copied();
    match (byte(0), byte(1)) {
        (Some(b'#'), _) => to_line_end(text, at + 1),
        (Some(b'-'), Some(b'-')) => match byte(2) {
            // `a--1` is arithmetic; only a space or a control character makes it a comment.
            Some(0xA0) if matches!(mode.multibyte, Multibyte::SingleByte | Multibyte::Unknown) => {
                match to_line_end(text, at + 2) {
                    Comment::Ignored { end, .. } => Comment::Ignored { end, sure: false },
                    other => other,
                }
            }
            Some(third) if third > b' ' && third != 0x7F => Comment::No,
            _ => to_line_end(text, at + 2),
        },
        (Some(b'/'), Some(b'*')) => long(text, at, mode),
        _ => Comment::No,
    }
}

/// A line comment ends before its line feed, or before a NUL.
fn to_line_end(text: &[u8], mut at: usize) -> Comment {
    while at < text.len() && text[at] != b'\n' && text[at] != 0 {
        at += 1;
    }
    Comment::Ignored {
        end: at,
        sure: true,
    }
}

fn long(text: &[u8], at: usize, mode: &Mode) -> Comment {
    let byte = |offset: usize| text.get(at + offset).copied();
    let marked = match (byte(2), byte(3)) {
        (Some(b'!'), _) => Some(at + 3),
        (Some(b'M'), Some(b'!')) if mode.dialect == Dialect::MariaDb => Some(at + 4),
        _ => None,
    };
    let Some(body) = marked else {
        return to_close(text, at + 2, false);
    };
    let digits = version_digits(text, body, mode);
    if digits == 0 {
        return Comment::Executed { body };
    }
    let number = |digits: usize| {
        let bytes = &text[body..body + digits];
        bytes
            .iter()
            .fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
    };
    let wanted = number(digits);
    // MariaDB keeps away from what MySQL alone has since it went its own way.
    let foreign = mode.dialect == Dialect::MariaDb
        && byte(2) == Some(b'!')
        && (50_700..=99_999).contains(&wanted);
    if wanted <= mode.version && !foreign {
        return Comment::Executed {
            body: body + digits,
        };
    }
    let comment = to_close(text, body + digits, true);
    match comment {
        // MySQL learnt to read six digits in the course of 8.0; before, it read five of them.
        Comment::Ignored { end, .. }
            if mode.dialect == Dialect::MySql && digits == 6 && number(5) <= mode.version =>
        {
            Comment::Ignored { end, sure: false }
        }
        _ => comment,
    }
}

/// How many digits of a version stand at `at`: five or six, else none count.
fn version_digits(text: &[u8], at: usize, mode: &Mode) -> usize {
    let byte = |index: usize| text.get(at + index).copied().unwrap_or(0);
    let digits = (0..6)
        .take_while(|index| byte(*index).is_ascii_digit())
        .count();
    let six = match mode.dialect {
        Dialect::MariaDb => true,
        Dialect::MySql => mode.version >= 80_000 && matches!(byte(6), b' ' | 0x09..=0x0D),
    };
    match digits {
        6 if six => 6,
        5 | 6 => 5,
        _ => 0,
    }
}

/// Searches `*/`. Inside a skipped executable comment one level of comments may nest.
fn to_close(text: &[u8], mut at: usize, nesting: bool) -> Comment {
    let mut inside = false;
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            (b'*', b'/') if inside => {
                inside = false;
                at += 2;
            }
            (b'*', b'/') => {
                return Comment::Ignored {
                    end: at + 2,
                    sure: true,
                };
            }
            (b'/', b'*') if nesting && !inside => {
                inside = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
    Comment::Ignored {
        end: text.len(),
        sure: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARIADB: Mode = Mode::new(Dialect::MariaDb, 101_106);
    const MYSQL: Mode = Mode::new(Dialect::MySql, 80_036);

    fn ignored(text: &str, mode: &Mode) -> Option<usize> {
        match at(text.as_bytes(), 0, mode) {
            Comment::Ignored { end, sure: true } => Some(end),
            _ => None,
        }
    }

    fn executed(text: &str, mode: &Mode) -> Option<usize> {
        match at(text.as_bytes(), 0, mode) {
            Comment::Executed { body } => Some(body),
            _ => None,
        }
    }

    #[test]
    fn dashes_need_a_space_or_control_behind_them() {
        assert_eq!(ignored("-- a\nb", &MYSQL), Some(4));
        assert_eq!(ignored("--", &MYSQL), Some(2));
        assert_eq!(ignored("--\na", &MYSQL), Some(2));
        assert_eq!(ignored("--\x01a", &MYSQL), Some(4));
        assert_eq!(at(b"--a", 0, &MYSQL), Comment::No);
        assert_eq!(ignored("#a\nb", &MYSQL), Some(2));
    }

    #[test]
    fn versions_decide_what_is_executed() {
        assert_eq!(executed("/*!SELECT*/", &MYSQL), Some(3));
        assert_eq!(executed("/*!50100SELECT*/", &MYSQL), Some(8));
        assert_eq!(executed("/*!080036 SELECT*/", &MYSQL), Some(9));
        let newer = at(b"/*!080037 SELECT*/", 0, &MYSQL);
        assert_eq!(
            newer,
            Comment::Ignored {
                end: 18,
                sure: false
            }
        );
        // Without the space MySQL reads five digits.
        assert_eq!(executed("/*!080037SELECT*/", &MYSQL), Some(8));
        assert_eq!(ignored("/*!99999 a */", &MYSQL), Some(13));
        assert_eq!(executed("/*!50699 1*/", &MARIADB), Some(8));
        assert_eq!(ignored("/*!50700 1*/", &MARIADB), Some(12));
        assert_eq!(ignored("/*!80000 1*/", &MARIADB), Some(12));
        assert_eq!(executed("/*!100100 1*/", &MARIADB), Some(9));
        assert_eq!(ignored("/*!110100 1*/", &MARIADB), Some(13));
        assert_eq!(executed("/*M!50700 1*/", &MARIADB), Some(9));
        assert_eq!(executed("/*M! 1*/", &MARIADB), Some(4));
        assert_eq!(ignored("/*M! 1*/", &MYSQL), Some(8));
    }

    #[test]
    fn comments_nest_only_in_skipped_executable_ones() {
        assert_eq!(ignored("/* a /* b */ c */", &MYSQL), Some(12));
        assert_eq!(ignored("/*!99999 a /* b */ c */", &MYSQL), Some(23));
        assert_eq!(ignored("/*/ a */", &MYSQL), Some(8));
        assert_eq!(ignored("/*+ NO_INDEX(t) */", &MYSQL), Some(18));
        assert_eq!(ignored("/**/", &MYSQL), Some(4));
        assert_eq!(
            at(b"/* a", 0, &MYSQL),
            Comment::Ignored {
                end: 4,
                sure: false
            }
        );
    }
}
