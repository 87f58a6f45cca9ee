//! The topic of a message: the sink's own, or one for each table, with the names that Debezium's connector gives them.

use std::borrow::Cow;

use crate::message::Message;
use crate::spec::Topics;

/// Kafka takes no longer name.
const NAME_MAX: usize = 249;

/// Where a message goes, of a sink with this name behind its host.
pub(super) fn topic_of<'a>(message: &Message, topics: Topics, name: &'a str) -> Cow<'a, str> {
    let own = match (topics, &message.record, &message.table) {
        (Topics::One, ..) => return Cow::Borrowed(name),
        (Topics::Table, Some(record), _) => record.topic.clone(),
        (Topics::Table, None, Some((database, table))) => format!("{name}.{database}.{table}"),
        (Topics::Table, None, None) if is_boundary(&message.event) => {
            format!("{name}.transaction")
        }
        (Topics::Table, None, None) => return Cow::Borrowed(name),
    };
    Cow::Owned(plain(&own))
}

fn is_boundary(event: &str) -> bool {
    matches!(event, "begin" | "commit")
}

/// The name with `_` for what cannot be in one, and no longer than one may be: both as Debezium does it.
fn plain(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    let mut plain = String::new();
    for letter in name.chars() {
        match is_plain(letter) {
            true => plain.push(letter),
            // Java counts so.
            false => plain.extend(std::iter::repeat_n('_', letter.len_utf16())),
        }
    }
    plain.truncate(NAME_MAX);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Record;

    #[test]
    fn topics_are_called_as_debezium_calls_them() {
        let mut message = Message {
            event: "ddl".to_owned(),
            ..Message::default()
        };
        let of = |message: &Message| topic_of(message, Topics::Table, "shop").into_owned();
        assert_eq!(topic_of(&message, Topics::One, "shop"), "shop");
        assert_eq!(of(&message), "shop");
        message.event = "commit".to_owned();
        assert_eq!(of(&message), "shop.transaction");
        message.table = Some(("d 1".to_owned(), "\u{f6}\u{1f600}".to_owned()));
        assert_eq!(of(&message), "shop.d_1.___");
        assert_eq!(topic_of(&message, Topics::One, "shop"), "shop");
        message.record = Some(Record {
            topic: "other.d.t".to_owned(),
            ..Record::default()
        });
        assert_eq!(of(&message), "other.d.t");
        message.record = None;
        message.table = Some(("d".to_owned(), "t".repeat(300)));
        assert_eq!(of(&message).len(), NAME_MAX);
    }
}
