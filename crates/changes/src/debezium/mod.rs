//! Changes as Debezium's connector for MySQL tells them: its envelope, its keys, its forms of values.
//!
//! What a line has beside a token is a record: `topic`, `key`, `value`, and `headers` where there are some. The forms are
//! those of the connector's defaults as JSON's converter writes them; docs/CHANGES.md says what differs.

mod decimal;
mod moment;
mod records;
mod schema;
mod tables;
mod value;

pub use decimal::unscaled;
pub use moment::{days, micros_of, micros_of_time};
pub(crate) use records::{Of, begun, definition, ended, row};
pub(crate) use tables::Tables;

/// What Debezium calls `topic.prefix`, unless somebody says otherwise.
const PREFIX: &str = "heddle";

/// How records are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debezium {
    /// In front of the names of topics and schemas.
    pub prefix: String,
    /// Each key and value with its schema.
    pub schema: bool,
    /// A delete is followed by a record without a value.
    pub tombstones: bool,
}

impl Default for Debezium {
    fn default() -> Debezium {
        Debezium {
            prefix: PREFIX.to_owned(),
            schema: false,
            tombstones: false,
        }
    }
}

/// True for what may be a prefix: topics and schemas have such names.
fn is_prefix(text: &str) -> bool {
    /// Databases' and tables' names have to have room in a topic's.
    const BYTES_MAX: usize = 64;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let begins = text
        .bytes()
        .next()
        .is_some_and(|it| it.is_ascii_alphabetic() || it == b'_');
    begins && text.len() <= BYTES_MAX && text.bytes().all(|byte| is_plain(byte) || byte == b'.')
}

/// In which form rows and their values are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Types {
    #[default]
    Heddle,
    Debezium(Debezium),
}

impl Types {
    /// The form of this name, the stream's own without one.
    ///
    /// # Errors
    /// There is none that is called so, or what belongs to another form is wanted; the text says what there is.
    pub fn named(
        name: Option<&str>,
        prefix: Option<&str>,
        schema: bool,
        tombstones: bool,
    ) -> Result<Types, String> {
        match name {
            None if prefix.is_some() || schema || tombstones => {
                Err("prefix, schema and tombstones are about types=debezium".to_owned())
            }
            None => Ok(Types::Heddle),
            Some("debezium") => {
                let prefix = prefix.unwrap_or(PREFIX).to_owned();
                match is_prefix(&prefix) {
                    true => Ok(Types::Debezium(Debezium {
                        prefix,
                        schema,
                        tombstones,
                    })),
                    false => Err(format!(
                        "{prefix:?} is no prefix of topics: up to 64 letters, digits, _, - and . make one, the first a \
                         letter or _"
                    )),
                }
            }
            Some(other) => Err(format!(
                "types {other:?}: debezium is the only one; leave it out for the stream's own"
            )),
        }
    }
}
