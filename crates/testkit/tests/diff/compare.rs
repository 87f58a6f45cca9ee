//! Compares what a server said straight with what came through Heddle.

use std::collections::BTreeSet;

use mysql_wire::capability::Capabilities;
use mysql_wire::status::Status;

use crate::fields::{Fields, fields};
use crate::scenario::{Exception, Step, holds};
use crate::transcript::{Kind, Transcript};

/// What may differ everywhere, and why. Everything else is an exception of one step.
pub const EVERYWHERE: [(Kind, &str, &str); 2] = [
    (
        Kind::Prepared,
        "statement_id",
        "ids are the session's own: they count from 1, where MariaDB counts all sessions together",
    ),
    (
        Kind::ColumnsEnd,
        "warnings",
        "servers are always spoken to with DEPRECATE_EOF, so Heddle puts this packet in before it has \
         seen what stands behind the rows; clients read them there",
    ),
];

/// Servers that name `autocommit`, when it is tracked, after a change of any on/off variable: all of
/// them share its storage. Heddle knows which variable was meant and says nothing.
const CONFUSED: &str = "mariadb 11";

/// Differing packets of one reply that are told.
const PACKETS_SHOWN: usize = 5;

/// The lines of exceptions that were needed.
pub type Used = BTreeSet<usize>;

pub struct Comparison<'a> {
    pub step: &'a Step,
    pub label: &'a str,
    pub capabilities: Capabilities,
    pub used: &'a mut Used,
}

impl Comparison<'_> {
    /// What differs in words, or `None`.
    pub fn difference(
        &mut self,
        straight: &[Transcript],
        through: &[Transcript],
    ) -> Option<String> {
        if straight == through {
            return None;
        }
        if self.excepted("all") {
            return None;
        }
        if straight.len() != through.len() {
            let counts = (straight.len(), through.len());
            return Some(format!(
                "{} replies straight, {} through Heddle: {}",
                counts.0,
                counts.1,
                outline(through)
            ));
        }
        let mut pairs = straight.iter().zip(through);
        pairs.find_map(|(straight, through)| self.reply(straight, through))
    }

    fn reply(&mut self, straight: &Transcript, through: &Transcript) -> Option<String> {
        if straight.broken != through.broken {
            return Some(format!(
                "straight: {:?}\nthrough: {:?}",
                straight.broken, through.broken
            ));
        }
        let (mut here, mut there) = (straight.packets.clone(), through.packets.clone());
        if here != there && self.excepted("rows") {
            here.retain(|(kind, _)| *kind != Kind::Row);
            there.retain(|(kind, _)| *kind != Kind::Row);
        }
        let kinds = |packets: &[(Kind, Vec<u8>)]| packets.iter().map(|p| p.0).collect::<Vec<_>>();
        if kinds(&here) != kinds(&there) {
            return Some(format!(
                "straight: {}\nthrough:  {}",
                outline(std::slice::from_ref(straight)),
                outline(std::slice::from_ref(through))
            ));
        }
        let pairs = here.iter().zip(&there).enumerate();
        let differing = pairs
            .filter_map(|(at, (here, there))| self.packet(at, here.0, &here.1, &there.1))
            .take(PACKETS_SHOWN)
            .collect::<Vec<_>>();
        (!differing.is_empty()).then(|| differing.join("\n"))
    }

    fn packet(&mut self, at: usize, kind: Kind, here: &[u8], there: &[u8]) -> Option<String> {
        if here == there {
            return None;
        }
        let straight = fields(kind, here, self.capabilities);
        let through = fields(kind, there, self.capabilities);
        // A field that only one of them has is empty on the other side.
        let names: BTreeSet<&str> = straight
            .iter()
            .chain(&through)
            .map(|field| field.0)
            .collect();
        let value = |of: &Fields, name: &str| {
            let found = of.iter().find(|field| field.0 == name);
            found.map_or(String::new(), |field| field.1.clone())
        };
        let confused = self.label.starts_with(CONFUSED)
            && value(&straight, "changes") == "autocommit=ON "
            && value(&through, "changes").is_empty();
        let mut words = Vec::new();
        for name in names {
            if confused && matches!(name, "changes" | "status") {
                continue;
            }
            let (here, there) = (value(&straight, name), value(&through, name));
            if kind == Kind::ColumnsEnd && name == "status" && but_for_index(&here, &there) {
                continue;
            }
            let everywhere = EVERYWHERE
                .iter()
                .any(|(k, field, _)| *k == kind && *field == name);
            if here != there && !everywhere && !self.excepted(name) {
                words.push(format!(
                    "packet {at} ({kind:?}), {name}\nstraight: {here}\nthrough:  {there}"
                ));
            }
        }
        (!words.is_empty()).then(|| words.join("\n"))
    }

    /// True when the step lists this field; notes that it was needed.
    fn excepted(&mut self, field: &str) -> bool {
        let applies =
            |exception: &&Exception| exception.field == field && holds(&exception.on, self.label);
        let found = self.step.exceptions.iter().find(applies);
        if let Some(exception) = found {
            self.used.insert(exception.line);
        }
        found.is_some()
    }
}

/// The flags in front of rows differ in nothing but what they say of indexes. Heddle takes them from
/// the packet behind the rows, where that is near and no error; a server may know less in front.
fn but_for_index(here: &str, there: &str) -> bool {
    let bits = |flags: &str| {
        let number = flags.split(' ').next()?.strip_prefix("0x")?;
        u16::from_str_radix(number, 16).ok()
    };
    let index = (Status::NO_INDEX | Status::NO_GOOD_INDEX).bits();
    match (bits(here), bits(there)) {
        (Some(here), Some(there)) => (here ^ there) & !index == 0,
        _ => false,
    }
}

/// Kinds of packets, and the message of an error.
fn outline(replies: &[Transcript]) -> String {
    let mut words = Vec::new();
    for reply in replies {
        for (kind, packet) in &reply.packets {
            words.push(match kind {
                Kind::Err => format!("Err {}", packet.escape_ascii()),
                kind => format!("{kind:?}"),
            });
            if words.len() > 20 {
                words.push("…".to_owned());
                return words.join(", ");
            }
        }
        words.extend(reply.broken.clone());
    }
    words.join(", ")
}
