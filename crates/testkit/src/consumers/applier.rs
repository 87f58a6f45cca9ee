//! `heddle apply` into a server of its own, which is killed as often as the applier itself; a client there sees
//! transactions over several groups whole.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::client::{Client, Reply};
use crate::farm::heddle;
use crate::holds_within;
use crate::servers::server::{Release, Server};

use super::consumer::Access;
use super::{ACCOUNTS, GROUPS, PATIENCE, START};

/// What a killed process has acknowledged is there when it starts again.
const SETTINGS: [(&str, &str); 1] = [("innodb_flush_log_at_trx_commit", "2")];

pub struct Applier {
    pub target: Server,
    child: Option<Child>,
    at: Access,
    log: PathBuf,
}

impl Applier {
    /// An applier to a new server, which has read the rows that are there; nobody writes meanwhile.
    pub fn start(release: Release, at: &Access, log: PathBuf) -> Option<Applier> {
        let target = Server::start_with(release, &SETTINGS)?;
        let mut applier = Applier {
            target,
            child: None,
            at: at.clone(),
            log,
        };
        applier.begin();
        Some(applier)
    }

    /// True when it has read the rows that were there.
    pub fn has_read(&self) -> bool {
        let said = self.said();
        let mut groups = GROUPS.iter();
        groups.all(|group| said.contains(&format!("rows of group {group} are read")))
    }

    /// Starts it, if it does not run.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn begin(&mut self) {
        if self.is_running() {
            return;
        }
        let said = File::options().create(true).append(true).open(&self.log);
        let said = said.expect("a file");
        let mut command = Command::new(heddle());
        command.args(["apply", "--to", &self.target.address().to_string()]);
        command.args(["--snapshot", "--order", "global"]);
        command.args(["--database", "bank", "--database", "roam"]);
        command.env("HEDDLE_HTTP", self.at.http.to_string());
        command.env("HEDDLE_TOKEN", &self.at.bearer);
        command.stdin(Stdio::null());
        command
            .stdout(said.try_clone().expect("a file"))
            .stderr(said);
        self.child = Some(command.spawn().expect("the program can be run"));
    }

    pub fn is_running(&mut self) -> bool {
        let ended = self.child.as_mut().map(Child::try_wait);
        matches!(ended, Some(Ok(None)))
    }

    /// What it said on stdout and stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// kill -9, and another one.
    pub fn kill(&mut self) {
        self.end();
        self.begin();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The last number of a beacon that it has applied in all rows.
    pub fn beacon(&self) -> u64 {
        let client = Client::connect(self.target.address(), "root", "");
        let sql = "SELECT MIN(number) FROM bank.beacon";
        let replies = client.and_then(|mut client| client.query(sql));
        match replies.as_deref() {
            Ok([Reply::Rows(rows)]) => {
                let text = rows.text();
                let cell = text.first().and_then(|row| row.first()?.as_deref());
                cell.and_then(|it| it.parse().ok()).unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// What is wrong at the target while changes are applied: money that is not there.
    pub fn audit(&self) -> Option<String> {
        let mut client = Client::connect(self.target.address(), "root", "").ok()?;
        let sql = "SELECT SUM(money), COUNT(*) FROM bank.account";
        let replies = client.query(sql).ok()?;
        let [Reply::Rows(rows)] = &replies[..] else {
            return Some(format!("the target answers {replies:?}"));
        };
        let accounts = i64::try_from(ACCOUNTS).unwrap_or_default();
        let text = rows.text();
        let expected = [START * accounts, accounts].map(|it| Some(it.to_string()));
        (text != [expected]).then(|| format!("the target has {text:?}: a transaction in part"))
    }

    /// The sums of the target's tables.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn sums(&self, tables: &[&str]) -> Result<Vec<u64>, String> {
        let client = Client::connect(self.target.address(), "root", "");
        let mut client = client.map_err(|failure| failure.to_string())?;
        let sums = tables.iter().map(|table| checksum(&mut client, table));
        sums.collect()
    }

    /// Waits until it runs again, if it has ended because its target died.
    pub fn revive(&mut self) -> bool {
        holds_within(PATIENCE, || {
            self.begin();
            self.is_running()
        })
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.end();
    }
}

/// What CHECKSUM TABLE says: a sum over rows, so that sums of parts add up.
///
/// # Errors
/// It says something else.
pub fn checksum(client: &mut Client, table: &str) -> Result<u64, String> {
    let replies = client.query(format!("CHECKSUM TABLE {table}"));
    let replies = replies.map_err(|failure| failure.to_string())?;
    let [Reply::Rows(rows)] = &replies[..] else {
        return Err(format!("{replies:?}"));
    };
    let text = rows.text();
    let cell = text.first().and_then(|row| row.get(1)?.as_deref());
    let number = cell.and_then(|it| it.parse().ok());
    number.ok_or_else(|| format!("{table}: {text:?}"))
}
