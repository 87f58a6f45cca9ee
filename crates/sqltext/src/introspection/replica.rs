//! What replicas ask their source when they connect, word for word as the servers have it in them.

/// How their statements begin, of MariaDB and of MySQL.
const BEGINNINGS: [&[u8]; 19] = [
    b"SELECT UNIX_TIMESTAMP()",
    b"SHOW VARIABLES LIKE 'SERVER_ID'",
    b"SHOW VARIABLES LIKE 'rpl_semi_sync_",
    b"SELECT @@GLOBAL.SERVER_ID",
    b"SELECT @@GLOBAL.SERVER_UUID",
    b"SELECT @@GLOBAL.GTID_MODE",
    b"SELECT @@GLOBAL.gtid_domain_id",
    b"SELECT @@GLOBAL.COLLATION_SERVER",
    b"SELECT @@GLOBAL.TIME_ZONE",
    b"SELECT @@global.rpl_semi_sync_",
    b"SELECT @master_binlog_checksum",
    b"SELECT @source_binlog_checksum",
    b"SELECT binlog_gtid_pos(",
    b"SET @master_",
    b"SET @source_",
    b"SET @slave_",
    b"SET @replica_",
    b"SET @mariadb_slave_capability",
    b"SET @rpl_semi_sync_",
];

/// True for a statement with which a replica prepares its stream. It takes most errors as answers that stop it for
/// good, and a connection that ends as a reason to connect again.
pub fn is_of_replica(text: &[u8]) -> bool {
    let begins = |with: &&[u8]| {
        let start = text.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    BEGINNINGS.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_known_by_its_words() {
        for text in [
            "SELECT UNIX_TIMESTAMP()",
            "SELECT @@GLOBAL.server_id",
            "SET @master_heartbeat_period= 30000001024, @source_heartbeat_period= 30000001024",
            "SET @slave_connect_state='0-1-7'",
        ] {
            assert!(is_of_replica(text.as_bytes()), "{text}");
        }
        for text in ["SELECT @@server_id", "SET @a = 1", "", "SELECT 1"] {
            assert!(!is_of_replica(text.as_bytes()), "{text}");
        }
    }
}
