//! Whether the clone plugin can fill one server from another, and why not.
//!
//! [`objection`] is pure: it compares what [`look`] read of the two servers. The servers check most of
//! this themselves, but only after the recipient was emptied.

use enginesql::Version;
use farm::Engine;

use crate::error::Error;
use crate::link::{Link, LinkTls, text_at};

const OPERATION: &str = "say whether its clone plugin can be used";

/// The first MySQL that has the plugin.
const PLUGIN_MIN: u32 = 80_017;

/// From here on donor and recipient may differ in their patch releases.
const PATCHES_MIN: u32 = 80_037;

/// Both servers need at least this `max_allowed_packet`.
const PACKET_BYTES_MIN: u64 = 2 << 20;

/// What decides, of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub address: String,
    pub host: String,
    pub version: Version,
    /// The privileges of Heddle's account that the work needs.
    pub privileges: Vec<String>,
    pub packet_bytes: u64,
    /// Settings that must be equal, by name.
    pub settings: Vec<(String, String)>,
    /// Tables of other engines than InnoDB: they would arrive empty.
    pub other_tables: u64,
    pub encrypted_tablespaces: u64,
    /// `clone_ssl_ca` is set, which it can be only while the plugin is active.
    pub has_authority: bool,
    /// All tablespaces together.
    pub bytes: u64,
}

/// Settings of which donor and recipient must have the same values.
const EQUAL: &[&str] = &[
    "version_compile_os",
    "version_compile_machine",
    "innodb_page_size",
    "innodb_data_file_path",
    "lower_case_table_names",
];

/// Reads what decides. A server that cannot have the plugin is asked for nothing else.
pub async fn look(link: &mut Link, timeout_ms: u64) -> Result<Side, Error> {
    let mut side = Side {
        address: link.address().to_owned(),
        host: link.login().host.clone(),
        version: link.version().clone(),
        privileges: Vec::new(),
        packet_bytes: 0,
        settings: Vec::new(),
        other_tables: 0,
        encrypted_tablespaces: 0,
        has_authority: false,
        bytes: 0,
    };
    if too_old(&side.version) {
        return Ok(side);
    }
    let names: Vec<String> = EQUAL.iter().map(|name| format!("'{name}'")).collect();
    let sql = format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({},'max_allowed_packet','clone_ssl_ca')",
        names.join(",")
    );
    for row in link.rows(OPERATION, &sql, timeout_ms).await? {
        let name = text_at(&row, 0).unwrap_or_default().to_ascii_lowercase();
        let value = text_at(&row, 1).unwrap_or_default();
        match &*name {
            "max_allowed_packet" => side.packet_bytes = value.parse().unwrap_or(0),
            "clone_ssl_ca" => side.has_authority = !value.is_empty(),
            _ => side.settings.push((name, value)),
        }
    }
    side.settings.sort();
    let sql = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE \
               REPLACE(GRANTEE, '\\'', '') = CURRENT_USER() AND \
               PRIVILEGE_TYPE IN ('BACKUP_ADMIN','CLONE_ADMIN','CREATE USER')";
    let rows = link.rows(OPERATION, sql, timeout_ms).await?;
    side.privileges = rows.iter().filter_map(|row| text_at(row, 0)).collect();
    let sql = "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' \
               AND ENGINE<>'InnoDB' AND TABLE_SCHEMA NOT IN \
               ('mysql','information_schema','performance_schema','sys')), \
               (SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION='Y'), \
               (SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_TABLESPACES)";
    let rows = link.rows(OPERATION, sql, timeout_ms).await?;
    let count = |index| {
        let cell = rows.first().and_then(|row| text_at(row, index));
        cell.and_then(|cell| cell.parse().ok()).unwrap_or(0)
    };
    side.other_tables = count(0);
    side.encrypted_tablespaces = count(1);
    side.bytes = count(2);
    Ok(side)
}

fn too_old(version: &Version) -> bool {
    version.engine != Engine::MySql || version.number < PLUGIN_MIN
}

/// Why the plugin cannot fill `recipient` from `donor`, with the cure; `None` when it can, as far as
/// can be known before.
pub fn objection(donor: &Side, recipient: &Side, tls: &LinkTls) -> Option<String> {
    let alone = [donor, recipient].into_iter().find_map(unfit);
    alone
        .or_else(|| different(donor, recipient))
        .or_else(|| left_out(donor))
        .or_else(|| forbidden(donor, recipient))
        .or_else(|| unreachable(donor, recipient, tls))
}

/// What keeps a server from being either.
fn unfit(side: &Side) -> Option<String> {
    let Side {
        address, version, ..
    } = side;
    if too_old(version) {
        return Some(format!(
            "server {address} runs {version}; the clone plugin needs MySQL 8.0.17 or newer"
        ));
    }
    (side.packet_bytes < PACKET_BYTES_MIN).then(|| {
        format!(
            "max_allowed_packet of server {address} is {} bytes; raise it to 2097152 or more",
            side.packet_bytes
        )
    })
}

fn different(donor: &Side, recipient: &Side) -> Option<String> {
    let [ours, theirs] = [donor, recipient].map(|side| side.version.number);
    let one_series = ours / 100 == theirs / 100;
    if !one_series || (ours != theirs && ours.min(theirs) < PATCHES_MIN) {
        return Some(format!(
            "server {} runs {}, server {} {}; the clone plugin needs the same release (from 8.0.37 on \
             the same series)",
            donor.address, donor.version, recipient.address, recipient.version
        ));
    }
    let mut settings = donor.settings.iter();
    let (name, value) = settings.find(|setting| !recipient.settings.contains(setting))?;
    Some(format!(
        "{name} is {value:?} on server {} and something else on server {}; give both the same value",
        donor.address, recipient.address
    ))
}

/// What the recipient would not get.
fn left_out(donor: &Side) -> Option<String> {
    let Side {
        address,
        other_tables,
        encrypted_tablespaces,
        ..
    } = donor;
    if *other_tables > 0 {
        return Some(format!(
            "server {address} has {other_tables} tables of other engines than InnoDB, whose rows the clone \
             plugin leaves out"
        ));
    }
    (*encrypted_tablespaces > 0).then(|| {
        format!(
            "server {address} has {encrypted_tablespaces} encrypted tablespaces, which need the same keyring \
             on the recipient"
        )
    })
}

fn forbidden(donor: &Side, recipient: &Side) -> Option<String> {
    let needed = [
        (donor, "BACKUP_ADMIN"),
        (donor, "CREATE USER"),
        (recipient, "CLONE_ADMIN"),
    ];
    let lacks =
        |(side, privilege): &(&Side, &str)| !side.privileges.iter().any(|it| it == privilege);
    let (side, privilege) = needed.into_iter().find(lacks)?;
    Some(format!(
        "the account that Heddle uses lacks {privilege} on server {}; grant it",
        side.address
    ))
}

fn unreachable(donor: &Side, recipient: &Side, tls: &LinkTls) -> Option<String> {
    if donor.host.contains(':') {
        return Some(format!(
            "clone_valid_donor_list takes no IPv6 address ({}); give the server a name",
            donor.host
        ));
    }
    let verifies = matches!(tls, LinkTls::VerifyCa(_) | LinkTls::VerifyIdentity(_));
    (verifies && !recipient.has_authority).then(|| {
        format!(
            "tls_servers asks for verified certificates, but server {} has no clone_ssl_ca; load the clone \
             plugin there and set it",
            recipient.address
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(version: &str) -> Side {
        let names = EQUAL
            .iter()
            .map(|name| ((*name).to_owned(), "x".to_owned()));
        Side {
            address: "h:1".to_owned(),
            host: "h".to_owned(),
            version: Version::parse(version).expect("a version"),
            privileges: ["BACKUP_ADMIN", "CLONE_ADMIN", "CREATE USER"]
                .map(str::to_owned)
                .to_vec(),
            packet_bytes: 64 << 20,
            settings: names.collect(),
            other_tables: 0,
            encrypted_tablespaces: 0,
            has_authority: false,
            bytes: 1,
        }
    }

    #[test]
    fn releases() {
        let fits = |donor: &str, recipient: &str| {
            objection(&side(donor), &side(recipient), &LinkTls::Off).is_none()
        };
        assert!(fits("8.0.45", "8.0.45"));
        assert!(fits("8.0.37", "8.0.45"), "patch releases may differ");
        assert!(fits("8.0.20", "8.0.20"));
        assert!(!fits("8.0.36", "8.0.37"));
        assert!(!fits("8.0.20", "8.0.21"));
        assert!(!fits("8.0.45", "8.4.6"));
        assert!(!fits("8.0.16", "8.0.16"));
        assert!(!fits("10.11.6-MariaDB", "10.11.6-MariaDB"));
    }

    #[test]
    fn each_obstacle_is_named_with_its_cure() {
        let check = |change: &dyn Fn(&mut Side, &mut Side), tls: &LinkTls, words: &str| {
            let (mut donor, mut recipient) = (side("8.0.45"), side("8.0.45"));
            change(&mut donor, &mut recipient);
            let said = objection(&donor, &recipient, tls).expect(words);
            assert!(said.contains(words), "{said}");
        };
        let off = &LinkTls::Off;
        check(&|_, r| r.packet_bytes = 1 << 20, off, "raise it to 2097152");
        check(&|d, _| d.other_tables = 3, off, "3 tables of other engines");
        check(&|d, _| d.encrypted_tablespaces = 1, off, "keyring");
        check(
            &|_, r| r.settings[2].1 = "y".to_owned(),
            off,
            "innodb_page_size",
        );
        check(&|d, _| d.privileges.clear(), off, "lacks BACKUP_ADMIN");
        check(&|_, r| r.privileges.clear(), off, "lacks CLONE_ADMIN");
        check(&|d, _| d.host = "::1".to_owned(), off, "IPv6");
        let verify = LinkTls::VerifyCa("/ca.pem".into());
        check(&|_, _| {}, &verify, "clone_ssl_ca");
        let (donor, mut recipient) = (side("8.0.45"), side("8.0.45"));
        recipient.has_authority = true;
        assert_eq!(objection(&donor, &recipient, &verify), None);
    }
}
