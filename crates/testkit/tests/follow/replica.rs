//! An ordinary server as the replica of a group: it knows one address, the router's.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::client::{Reply, Value};
use testkit::{Client, Release, Server, holds_within, wait_until};

/// For what takes a server's end and a change of primary, on a machine that is busy with other tests.
pub const SOON: Duration = Duration::from_secs(180);

/// In which nobody else of a farm is.
const SERVER_ID: &str = "990";

pub struct Replica {
    pub server: Server,
}

impl Replica {
    /// A server that follows from here on, of the database `d` only; `None` where there is no such server.
    pub fn of(release: Release, source: SocketAddr, more: &[(&str, &str)]) -> Option<Replica> {
        let mut settings = vec![("server_id", SERVER_ID), ("replicate_wild_do_table", "d.%")];
        settings.extend(more);
        let server = Server::start_with(release, &settings)?;
        let mut group = Client::connect(source, "root", "").expect("the group is there");
        let mut own = server.client();
        own.run("RESET MASTER");
        let way = match release {
            Release::Installed | Release::MariaDb114 => {
                let position = group.value("SELECT @@global.gtid_binlog_pos");
                own.run(&format!("SET GLOBAL gtid_slave_pos = '{position}'"));
                "MASTER_USE_GTID = slave_pos"
            }
            _ => {
                let position = group.value("SELECT @@global.gtid_executed");
                own.run(&format!(
                    "SET GLOBAL gtid_purged = '{}'",
                    position.replace('\n', "")
                ));
                "MASTER_AUTO_POSITION = 1"
            }
        };
        own.run(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
             MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1, {way}",
            source.port()
        ));
        own.run("START SLAVE");
        Some(Replica { server })
    }

    /// A column of SHOW SLAVE STATUS, by the name that both engines have for it.
    pub fn status(&self, column: &str) -> String {
        let mut own = self.server.client();
        let replies = own.query("SHOW SLAVE STATUS").expect("it is a replica");
        let Reply::Rows(table) = &replies[0] else {
            panic!("no rows");
        };
        let at = table.columns.iter().position(|it| it.name == column);
        match &table.rows[0][at.unwrap_or_else(|| panic!("no column {column}"))] {
            Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }

    /// Waits until the replica has this row.
    #[track_caller]
    pub fn reaches(&self, table: &str, id: i64) {
        wait_until(SOON, "the replica has the row", || {
            let sql = format!("SELECT COUNT(*) FROM {table} WHERE id = {id}");
            let asked = self.server.client().query(&sql);
            asked.is_ok() && self.server.client().value(&sql) == "1"
        });
    }

    /// It receives and applies, and nothing has stopped it. One that has just lost its source connects again.
    #[track_caller]
    pub fn is_sound(&self) {
        const RUN: [&str; 2] = ["Slave_IO_Running", "Slave_SQL_Running"];
        let sound = holds_within(SOON, || RUN.iter().all(|it| self.status(it) == "Yes"));
        let said = [RUN[0], RUN[1], "Last_IO_Error", "Last_SQL_Error"].map(|it| self.status(it));
        assert!(sound, "{said:?}");
    }
}

/// What CHECKSUM TABLE says.
pub fn checksum(client: &mut Client, table: &str) -> String {
    let rows = client.rows(&format!("CHECKSUM TABLE {table}"));
    rows[0][1].clone().expect("there is such a table")
}
