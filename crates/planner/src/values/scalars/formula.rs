//! What is computed of a scalar subquery's aggregates, as it is written, with values in their places.

use sqltext::{Piece, PieceKind};

use super::columns::ValueType;

/// An item of aggregates, numbers and what joins them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formula {
    terms: Vec<Term>,
    value_type: ValueType,
}

/// Values are columns of the row that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Text(String),
    Value(usize),
    /// A decimal, also where its text has no point.
    Sum(usize),
    /// A sum and the count behind it.
    Average(usize),
}

impl Formula {
    /// Reads an item; with it come the aggregates to ask for. `None` where it has anything else in it.
    pub(super) fn of(
        text: &str,
        item: &[Piece],
        value_type: ValueType,
    ) -> Option<(Formula, Vec<String>)> {
        let bytes = text.as_bytes();
        let (mut terms, mut asked) = (Vec::new(), Vec::new());
        let mut rest = item.iter();
        while let Some(piece) = rest.next() {
            match piece.kind {
                PieceKind::Open | PieceKind::Close | PieceKind::Literal | PieceKind::Operator => {
                    let own = piece.span.of(bytes);
                    terms.push(Term::Text(String::from_utf8_lossy(own).into_owned()));
                    continue;
                }
                PieceKind::Word | PieceKind::Reserved => {}
                _ => return None,
            }
            let first = rest.next().filter(|it| it.kind == PieceKind::Open)?;
            let mut depth = 1usize;
            let last = rest.find(|it| {
                match it.kind {
                    PieceKind::Open => depth += 1,
                    PieceKind::Close => depth -= 1,
                    _ => {}
                }
                depth == 0
            })?;
            let argument = &text[first.span.start as usize..last.span.end as usize];
            let word = text[piece.span.start as usize..piece.span.end as usize].to_uppercase();
            terms.push(match &*word {
                "SUM" => Term::Sum(asked.len()),
                "AVG" => Term::Average(asked.len()),
                "COUNT" | "MIN" | "MAX" => Term::Value(asked.len()),
                _ => return None,
            });
            match &*word {
                "AVG" => asked.extend([format!("SUM{argument}"), format!("COUNT{argument}")]),
                _ => asked.push(format!("{word}{argument}")),
            }
        }
        Some((Formula { terms, value_type }, asked))
    }

    /// The aggregates that are written in it.
    pub(super) fn aggregates(&self) -> usize {
        let values = self.terms.iter();
        values.filter(|it| !matches!(it, Term::Text(_))).count()
    }

    /// The columns of the row that it needs.
    pub(super) fn columns(&self) -> usize {
        let of = |term: &Term| match term {
            Term::Text(_) => 0,
            Term::Value(_) | Term::Sum(_) => 1,
            Term::Average(_) => 2,
        };
        self.terms.iter().map(of).sum()
    }

    /// The formula over these values, in parentheses; `None` where one cannot be written out.
    pub(super) fn with(&self, row: &[Option<String>]) -> Option<String> {
        let value = |at: usize| written(row.get(at)?.as_deref(), self.value_type);
        let computes = self.terms.len() > 1;
        let mut out = "(".to_owned();
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            out.push_str(&match term {
                Term::Text(text) => text.clone(),
                Term::Value(at) => value(*at)?,
                Term::Sum(at) => match value(*at)? {
                    // Integers would be too large sooner than decimals are.
                    whole if computes && !whole.contains(['.', 'N']) => {
                        format!("CAST({whole} AS DECIMAL(65))")
                    }
                    other => other,
                },
                Term::Average(at) => match row.get(at + 1)?.as_deref() {
                    None | Some("0") => "NULL".to_owned(),
                    Some(count) => format!("({} / {})", value(*at)?, number(count)?),
                },
            });
        }
        out.push(')');
        Some(out)
    }
}

/// A value as a literal.
fn written(value: Option<&str>, value_type: ValueType) -> Option<String> {
    let Some(value) = value else {
        return Some("NULL".to_owned());
    };
    match value_type {
        ValueType::Number => number(value),
        ValueType::Date if is_date(value) => Some(format!("DATE'{value}'")),
        ValueType::Datetime if is_datetime(value) => Some(format!("TIMESTAMP'{value}'")),
        ValueType::Date | ValueType::Datetime => None,
    }
}

/// A negative one stands in parentheses: a sign may be in front of it.
fn number(value: &str) -> Option<String> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let mut parts = digits.splitn(2, '.');
    let all = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_number = parts.next().is_some_and(all) && parts.next().is_none_or(all);
    match (is_number, digits.len() < value.len()) {
        (false, _) => None,
        (true, true) => Some(format!("({value})")),
        (true, false) => Some(value.to_owned()),
    }
}

/// A day of the calendar: sql_mode allows columns to hold others, and not literals.
fn is_date(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let of = |part: &str, length: usize| {
        let digits = part.len() == length && part.bytes().all(|it| it.is_ascii_digit());
        digits.then(|| part.parse::<u32>().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (of(year, 4), of(month, 2), of(day, 2)) else {
        return false;
    };
    let leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leaps => 29,
        2 => 28,
        _ => 0,
    };
    year > 0 && (1..=days).contains(&day)
}

fn is_datetime(value: &str) -> bool {
    let time = |it: &str| {
        let shown = it
            .bytes()
            .all(|it| it.is_ascii_digit() || it == b':' || it == b'.');
        shown && it.len() >= 8
    };
    let parts = value.split_once(' ');
    parts.is_some_and(|(date, of_day)| is_date(date) && time(of_day))
}
