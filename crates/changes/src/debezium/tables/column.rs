//! A column as a statement defines it, in the words of Debezium.

use serde_json::{Value, json};

use super::parts::{enclosed, parts};
use crate::words::Token;

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// The type in upper case, with UNSIGNED and ZEROFILL.
    pub(super) type_name: String,
    pub(super) charset: Option<String>,
    pub(super) length: Option<u64>,
    pub(super) scale: Option<u64>,
    pub(super) nullable: bool,
    pub(super) auto_incremented: bool,
    pub(super) generated: bool,
    pub(super) comment: Option<String>,
    pub(super) default: Option<String>,
    /// Labels, each in quotes.
    pub(super) members: Vec<String>,
}

/// Where a column that is added or changed goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Stays,
    First,
    After(String),
}

/// What a definition says besides the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Defined {
    pub(super) column: Column,
    pub(super) is_key: bool,
    pub(super) place: Place,
}

impl Column {
    /// As the table's change has it, at this place from 1.
    pub(super) fn value(&self, position: usize, charset: Option<&str>) -> Value {
        let of_text = self.is_text().then_some(charset).flatten();
        json!({
            "name": self.name,
            "jdbcType": self.jdbc_type(),
            "nativeType": null,
            "typeName": self.type_name,
            "typeExpression": self.type_name,
            "charsetName": self.charset.as_deref().or(of_text),
            "length": self.length,
            "scale": self.scale,
            "position": position,
            "optional": self.nullable,
            "autoIncremented": self.auto_incremented,
            "generated": self.generated,
            "comment": self.comment,
            "defaultValueExpression": self.default,
            "enumValues": (!self.members.is_empty()).then(|| self.members.clone()),
        })
    }

    /// The first word of the type.
    pub(super) fn word(&self) -> &str {
        let end = self.type_name.find(' ').unwrap_or(self.type_name.len());
        &self.type_name[..end]
    }

    pub(super) fn is_text(&self) -> bool {
        let word = self.word();
        word.contains("CHAR") || word.ends_with("TEXT") || word == "ENUM" || word == "SET"
    }

    /// The number of `java.sql.Types` that Debezium's parser gives.
    fn jdbc_type(&self) -> i32 {
        match self.word() {
            "TINYINT" | "SMALLINT" | "INT1" | "INT2" => 5,
            "MEDIUMINT" | "INT" | "INTEGER" | "YEAR" | "INT3" | "INT4" | "MIDDLEINT" => 4,
            "BIGINT" | "INT8" | "SERIAL" => -5,
            "FLOAT" | "FLOAT4" | "FLOAT8" => 6,
            "REAL" => 7,
            "DOUBLE" => 8,
            "DECIMAL" | "DEC" | "FIXED" => 3,
            "NUMERIC" => 2,
            "BIT" => -7,
            "BOOL" | "BOOLEAN" => 16,
            "DATE" => 91,
            "TIME" => 92,
            "DATETIME" => 93,
            "TIMESTAMP" => 2014,
            "CHAR" | "CHARACTER" | "ENUM" | "SET" => 1,
            "NCHAR" => -15,
            "NVARCHAR" => -9,
            "BINARY" => -2,
            "VARBINARY" => -3,
            word if word.ends_with("BLOB") => 2004,
            word if word.ends_with("TEXT") || word == "VARCHAR" || word == "LONG" => 12,
            _ => 1111,
        }
    }
}

/// Reads the definition of a column, from its name on; `None` for what is none.
pub(super) fn column(tokens: &[Token]) -> Option<Defined> {
    let (name, rest) = tokens.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let Token::Word(first) = first else {
        return None;
    };
    let mut column = Column {
        name: name.name()?.to_owned(),
        type_name: first.to_ascii_uppercase(),
        nullable: true,
        ..Column::default()
    };
    if let Some(second) = rest
        .first()
        .filter(|it| SECOND.iter().any(|word| it.is(word)))
    {
        if let Token::Word(second) = second {
            column.type_name = format!("{} {}", column.type_name, second.to_ascii_uppercase());
        }
        rest = &rest[1..];
    }
    if let Some((inner, behind)) = enclosed(rest) {
        sizes(&mut column, inner);
        rest = behind;
    }
    defaults(&mut column);
    let mut defined = Defined {
        column,
        is_key: false,
        place: Place::Stays,
    };
    while !rest.is_empty() {
        rest = &rest[attribute(&mut defined, rest)..];
    }
    Some(defined)
}

/// Second words of types.
const SECOND: [&str; 3] = ["PRECISION", "VARYING", "VARCHAR"];

fn sizes(column: &mut Column, inner: &[Token]) {
    let texts = inner.iter().filter_map(|token| match token {
        Token::Text(text) => Some(format!("'{}'", text.replace('\'', "''"))),
        _ => None,
    });
    column.members = texts.collect();
    let mut numbers = parts(inner).into_iter().map(|part| match part {
        [Token::Word(digits)] => digits.parse().ok(),
        _ => None,
    });
    column.length = numbers.next().flatten();
    column.scale = numbers.next().flatten();
}

/// What a type has without saying it.
fn defaults(column: &mut Column) {
    let count = u64::try_from(column.members.len()).unwrap_or(0);
    match column.word() {
        "DECIMAL" | "NUMERIC" | "DEC" | "FIXED" => {
            column.length = column.length.or(Some(10));
            column.scale = column.scale.or(Some(0));
        }
        "BIT" | "CHAR" | "BINARY" => column.length = column.length.or(Some(1)),
        "ENUM" => column.length = Some(1),
        "SET" => column.length = Some((count * 2).saturating_sub(1)),
        "SERIAL" => {
            column.type_name = "BIGINT UNSIGNED".to_owned();
            (column.nullable, column.auto_incremented, column.generated) = (false, true, true);
        }
        _ => {}
    }
}

/// Reads what stands at the front behind a type; gives how many tokens that were.
fn attribute(defined: &mut Defined, rest: &[Token]) -> usize {
    let column = &mut defined.column;
    let is = |at: usize, word: &str| rest.get(at).is_some_and(|it| it.is(word));
    let name = |at: usize| rest.get(at).and_then(Token::name).map(str::to_owned);
    match &rest[0] {
        it if it.is("UNSIGNED") || it.is("ZEROFILL") => {
            let word = name(0).unwrap_or_default().to_ascii_uppercase();
            column.type_name = format!("{} {word}", column.type_name);
            1
        }
        it if it.is("CHARACTER") && is(1, "SET") => {
            column.charset = name(2);
            3
        }
        it if it.is("CHARSET") => {
            column.charset = name(1);
            2
        }
        it if it.is("COLLATE") => {
            let of = name(1).and_then(|it| it.split('_').next().map(str::to_owned));
            column.charset = column.charset.take().or(of);
            2
        }
        it if it.is("NOT") && is(1, "NULL") => {
            column.nullable = false;
            2
        }
        it if it.is("DEFAULT") => 1 + default(column, &rest[1..]),
        it if it.is("AUTO_INCREMENT") => {
            (column.auto_incremented, column.generated) = (true, true);
            1
        }
        it if it.is("PRIMARY") => {
            defined.is_key = true;
            column.nullable = false;
            2
        }
        it if it.is("KEY") => {
            defined.is_key = true;
            column.nullable = false;
            1
        }
        it if it.is("UNIQUE") => 1 + usize::from(is(1, "KEY")),
        it if it.is("COMMENT") => {
            if let Some(Token::Text(text)) = rest.get(1) {
                column.comment = Some(text.clone());
            }
            2
        }
        it if it.is("AS") => {
            column.generated = true;
            1
        }
        it if it.is("FIRST") => {
            defined.place = Place::First;
            1
        }
        it if it.is("AFTER") => {
            defined.place = name(1).map_or(Place::Stays, Place::After);
            2
        }
        _ => match enclosed(rest) {
            Some((_, behind)) => rest.len() - behind.len(),
            None => 1,
        },
    }
    .min(rest.len())
}

/// Takes over what stands behind DEFAULT; gives how many tokens that were.
fn default(column: &mut Column, rest: &[Token]) -> usize {
    match rest {
        [Token::Text(text), ..] => {
            column.default = Some(text.clone());
            1
        }
        [Token::Other('-'), Token::Word(number), ..] => {
            column.default = Some(format!("-{number}"));
            2
        }
        [Token::Word(word), rest @ ..] => {
            let is_null = word.eq_ignore_ascii_case("NULL");
            column.default = (!is_null).then(|| word.clone());
            // Of a function.
            1 + enclosed(rest).map_or(0, |(_, behind)| rest.len() - behind.len())
        }
        rest => enclosed(rest).map_or(1, |(_, behind)| rest.len() - behind.len()),
    }
}
