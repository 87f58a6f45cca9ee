//! The target that a call names, and what cannot be right about it.

use catalog::command::{Arguments, CommandError};
use catalog::identity;
use catalog::subscription::SubscriptionRecord;
use sinks::{Account, Compression, Format, Mechanism, Place, Spec, Topics};

use crate::subscriptions::types_of;

/// What is about files, about both brokers, and about one of them.
const OF_FILES: [&str; 4] = ["format", "rotate_bytes", "rotate_rows", "rotate_s"];
const OF_PACKED: [&str; 1] = ["compress"];
const OF_BROKERS: [&str; 5] = ["tls", "target_cert", "target_key", "user", "password_file"];
const OF_NATS: [&str; 3] = ["token_file", "nkey_file", "credentials_file"];
const OF_KAFKA: [&str; 2] = ["mechanism", "topics"];

/// The target that a call names.
pub(super) fn spec(args: &Arguments) -> Result<Spec, CommandError> {
    let text = |name: &str| args.get(name).unwrap_or_default().to_owned();
    let mut spec = Spec {
        to: text("to"),
        ca: text("target_ca"),
        account: Account {
            user: text("user"),
            password_file: text("password_file"),
            mechanism: text("mechanism"),
            token_file: text("token_file"),
            nkey_file: text("nkey_file"),
            credentials_file: text("credentials_file"),
        },
        tls: args.switch("tls")?,
        certificate: text("target_cert"),
        key: text("target_key"),
        ..Spec::default()
    };
    let place = spec.place().map_err(CommandError::Usage)?;
    of_other_targets(args, &place)?;
    files(args, &mut spec)?;
    packing(args, &place, &mut spec)?;
    if let Some(topics) = args.parse("topics", "one or table")? {
        spec.topics = topics;
    }
    if matches!(place, Place::Nats(_) | Place::Kafka(_)) {
        let objection = broker(&spec);
        objection.map_or(Ok(()), |why| Err(CommandError::Usage(why)))?;
    }
    if let Place::Webhook(_) = place {
        let secret = identity::secret().map_err(catalog::Error::from)?;
        spec.secret = secret.reveal().to_owned();
    }
    Ok(spec)
}

/// Refuses what is about targets of another kind.
fn of_other_targets(args: &Arguments, place: &Place) -> Result<(), CommandError> {
    let is_file = matches!(place, Place::Files(_));
    let is_nats = matches!(place, Place::Nats(_));
    let is_kafka = matches!(place, Place::Kafka(_));
    let kinds = [
        (&OF_FILES[..], "files", is_file),
        (&OF_PACKED, "files and Kafka", is_file || is_kafka),
        (&OF_BROKERS, "brokers", is_nats || is_kafka),
        (&OF_NATS, "NATS", is_nats),
        (&OF_KAFKA, "Kafka", is_kafka),
    ];
    for (names, of, is_right) in kinds {
        let wrong = names.iter().find(|it| !is_right && args.get(it).is_some());
        if let Some(wrong) = wrong {
            let to = args.text("to");
            return Err(CommandError::Usage(format!(
                "{wrong} is about {of}, and {to} is none of that"
            )));
        }
    }
    Ok(())
}

fn files(args: &Arguments, spec: &mut Spec) -> Result<(), CommandError> {
    if let Some(format) = args.parse("format", "lines or parquet")? {
        spec.format = format;
    }
    if spec.format == Format::Parquet {
        spec.compress = Compression::Zstd;
        if args.get("types").is_some() {
            return Err(CommandError::Usage(
                "files of Parquet have the types of their columns: leave types out".to_owned(),
            ));
        }
    }
    for (name, what, size) in [
        ("rotate_bytes", "a number of bytes", &mut spec.rotate_bytes),
        ("rotate_rows", "a number of events", &mut spec.rotate_rows),
        ("rotate_s", "a number of seconds", &mut spec.rotate_s),
    ] {
        if let Some(given) = args.parse(name, what)? {
            *size = given;
        }
    }
    Ok(())
}

fn packing(args: &Arguments, place: &Place, spec: &mut Spec) -> Result<(), CommandError> {
    let kinds = match place {
        Place::Kafka(_) => "none, gzip or zstd",
        _ => "none or zstd",
    };
    if let Some(compress) = args.parse("compress", kinds)? {
        spec.compress = compress;
    }
    match (place, spec.compress) {
        (Place::Files(_), Compression::Gzip) => Err(args.bad("compress", "gzip", kinds)),
        _ => Ok(()),
    }
}

/// Has Debezium's topics begin with what stands behind the host, where each table has one.
pub(super) fn prefixed(of: &mut SubscriptionRecord, spec: &Spec) -> Result<(), CommandError> {
    let place = spec.place().map_err(CommandError::Usage)?;
    let (Topics::Table, Place::Kafka(at)) = (spec.topics, place) else {
        return Ok(());
    };
    if of.types.is_empty() || of.prefix == at.name {
        return Ok(());
    }
    if !of.prefix.is_empty() {
        return Err(CommandError::Usage(format!(
            "prefix {:?}: a topic for each table begins with what stands behind the host, {}; leave prefix out",
            of.prefix, at.name
        )));
    }
    of.prefix = at.name;
    types_of(of).map(drop).map_err(CommandError::Usage)
}

/// Why a broker cannot be entered as it is said.
fn broker(spec: &Spec) -> Option<String> {
    let Account {
        user,
        password_file,
        mechanism,
        ..
    } = &spec.account;
    let kinds = spec.account.kinds();
    if kinds.len() > 1 {
        return Some(format!(
            "an account logs in in one way, and {} are several",
            kinds.join(" and ")
        ));
    }
    if user.is_empty() && !(password_file.is_empty() && mechanism.is_empty()) {
        return Some("a password and a mechanism belong to a user: name it with user".to_owned());
    }
    if !mechanism.is_empty() && Mechanism::named(mechanism).is_none() {
        return Some(format!(
            "mechanism {mechanism:?} is not known: there are SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN"
        ));
    }
    if spec.certificate.is_empty() != spec.key.is_empty() {
        return Some("target_cert and target_key belong together".to_owned());
    }
    let has_certificates = !spec.ca.is_empty() || !spec.certificate.is_empty();
    if has_certificates && !spec.tls {
        return Some("target_ca, target_cert and target_key are about TLS: add tls".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_of_tables_begin_with_the_name_behind_the_host() {
        let spec = Spec {
            to: "kafka://h/shop".to_owned(),
            topics: Topics::Table,
            ..Spec::default()
        };
        let mut of = SubscriptionRecord::default();
        assert!(prefixed(&mut of, &spec).is_ok() && of.prefix.is_empty());
        of.types = "debezium".to_owned();
        assert!(prefixed(&mut of, &spec).is_ok() && of.prefix == "shop");
        assert!(prefixed(&mut of, &spec).is_ok());
        of.prefix = "other".to_owned();
        assert!(prefixed(&mut of, &spec).is_err());
        // Topics may begin with a digit, Debezium's prefix may not.
        of.prefix.clear();
        let to = "kafka://h/1".to_owned();
        assert!(prefixed(&mut of, &Spec { to, ..spec }).is_err());
    }

    #[test]
    fn what_cannot_be_right_about_a_broker_is_said() {
        let mut spec = Spec::default();
        assert_eq!(broker(&spec), None);
        spec.account.password_file = "f".to_owned();
        assert!(broker(&spec).is_some_and(|why| why.contains("user")));
        spec.account.user = "u".to_owned();
        spec.account.mechanism = "scram-sha-256".to_owned();
        assert_eq!(broker(&spec), None);
        spec.account.mechanism = "GSSAPI".to_owned();
        assert!(broker(&spec).is_some_and(|why| why.contains("GSSAPI")));
        spec.account.mechanism.clear();
        spec.ca = "ca.pem".to_owned();
        assert!(broker(&spec).is_some_and(|why| why.contains("tls")));
        spec.tls = true;
        assert_eq!(broker(&spec), None);
        spec.key = "k".to_owned();
        assert!(broker(&spec).is_some());
        spec.certificate = "c".to_owned();
        spec.account.nkey_file = "n".to_owned();
        assert!(broker(&spec).is_some_and(|why| why.contains("several")));
    }
}
