//! Filling a server of `heddle up` with the files of another one, while both run.
//!
//! Order: the donor's backup streams into a directory beside the recipient's data; it is prepared there, and gets the
//! donor's binary logs up to where it is; then the recipient's guard stops it, exchanges the directories and starts it.
//! Until that moment the recipient keeps what it had, and may even die.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use control::backup::{Filled, Filling};
use control::{Backup, BackupOrder};
use mysqld::backup::{self, Noted, Tool};
use mysqld::logs::{self, Carrying};
use mysqld::{Binary, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

use super::fence::{Guards, Order};
use super::fleet::Identity;
use super::place::Place;
use crate::router::blocking;

/// Pause between two looks at how far a backup is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Bytes that are carried at once where there is a limit.
const PUMP_BYTES: usize = 256 << 10;

/// The servers of this farm, as somebody who moves their files sees them.
#[derive(Clone, Debug)]
pub struct Backups {
    pub guards: Guards,
    pub place: Arc<Place>,
    pub all: Vec<Identity>,
    /// Or why there is none.
    pub tool: Result<Tool, String>,
    pub user: String,
    pub password: String,
}

impl Backups {
    /// Looks for the tool.
    pub fn new(guards: &Guards, place: &Arc<Place>, all: &[Identity], binary: &Binary) -> Backups {
        Backups {
            guards: guards.clone(),
            place: Arc::clone(place),
            all: all.to_vec(),
            tool: Tool::find(binary),
            user: String::new(),
            password: String::new(),
        }
    }

    /// The place of the farm's own server at this address.
    fn options(&self, address: &str) -> Option<Options> {
        let port = address.strip_prefix("127.0.0.1:")?.parse::<u16>().ok()?;
        let found = self.all.iter().find(|one| one.port == port)?;
        let dir = self.place.server(&found.name);
        Some(Options::new(&found.name, &dir, port, found.server_id))
    }

    async fn carry_out(self, order: BackupOrder) -> Result<Filled, String> {
        let tool = self.tool.clone()?;
        let foreign = |address: &str| format!("{address} is no server of this `heddle up`");
        let donor = self.options(&order.donor);
        let donor = donor.ok_or_else(|| foreign(&order.donor))?;
        let recipient = self.options(&order.recipient);
        let recipient = recipient.ok_or_else(|| foreign(&order.recipient))?;
        let login = recipient.dir.join("backup.cnf");
        let outcome = self.bring(&tool, &order, &donor, &recipient, &login).await;
        // Whatever is left of it; the directories are removed by the next one, too.
        let _ = std::fs::remove_file(&login);
        let left = recipient.clone();
        let _ = blocking(move || backup::forget(&left)).await;
        outcome
    }

    async fn bring(
        &self,
        tool: &Tool,
        order: &BackupOrder,
        donor: &Options,
        recipient: &Options,
        login: &Path,
    ) -> Result<Filled, String> {
        let text = |error: mysqld::Error| error.to_string();
        let (from, to) = (donor.clone(), recipient.clone());
        let begun = blocking(move || Ok((backup::arrival(&to)?, backup::bytes_in(&from.data()))));
        let begun: Result<(PathBuf, u64), mysqld::Error> =
            begun.await.map_err(|failure| failure.text)?;
        let (files, total) = begun.map_err(text)?;
        backup::write_login(login, donor, &self.user, &self.password).map_err(text)?;
        let progress = &order.progress;
        progress.enter("backs the donor's files up");
        progress.begin_bytes(total);
        let log = recipient.dir.join("backup.log");
        let scratch = recipient.temporary();
        let command = tool.backup(login, &scratch);
        let stream = stream(command, tool.unpack(&files), &log, order.mib_per_s_max);
        tokio::select! {
            outcome = stream => outcome?,
            never = measure(&files, order) => match never {},
        }
        progress.end_bytes();
        let arrived = files.clone();
        if let Ok(bytes) = blocking(move || backup::bytes_in(&arrived)).await {
            progress.bytes.store(bytes, Relaxed);
        }
        progress.enter("prepares the files");
        let mut preparing = spawn(tool.prepare(&files), Stdio::null(), &log)?;
        ended("mariadb-backup --prepare", &mut preparing, &log).await?;
        let noted = backup::noted(&files)?;
        progress.enter("copies the binary logs");
        let carried = carry_logs(donor, &files, &noted, order.mib_per_s_max).await;
        if let Err(why) = &carried {
            // The data are worth more than who reads changes from before.
            tracing::warn!("{} gets no binary logs: {why}", recipient.name);
            let files = files.clone();
            let _ = blocking(move || logs::forget(&files)).await;
        }
        progress.enter("restarts the server on the files");
        let (done, is_done) = oneshot::channel();
        self.guards
            .order(recipient.port, Order::Exchange(done))
            .await?;
        let exchanged = is_done.await;
        exchanged.map_err(|_| "the server's guard has gone".to_owned())??;
        Ok(Filled {
            gtids: noted.gtids,
            has_logs: carried.is_ok(),
        })
    }
}

impl Backup for Backups {
    fn objection(&self, donor: &str, recipient: &str) -> Option<String> {
        if let Err(why) = &self.tool {
            return Some(why.clone());
        }
        let foreign = [donor, recipient]
            .into_iter()
            .find(|address| self.options(address).is_none())?;
        Some(format!(
            "{foreign} is no server of this `heddle up`, so its files are out of reach"
        ))
    }

    fn restarts(&self, address: &str) -> bool {
        self.options(address).is_some()
    }

    fn fill(&self, order: BackupOrder) -> Filling {
        Box::pin(self.clone().carry_out(order))
    }
}

/// Copies the donor's binary logs up to where the files are, at a rate. Dropped, it ends behind some megabytes.
async fn carry_logs(
    donor: &Options,
    files: &Path,
    noted: &Noted,
    mib_per_s_max: u64,
) -> Result<(), String> {
    let (donor, files, noted) = (donor.clone(), files.to_owned(), noted.clone());
    let text = |error: mysqld::Error| error.to_string();
    let begun = blocking(move || Carrying::begin(&donor, &files, &noted)).await;
    let mut carrying = begun.map_err(|failure| failure.text)?.map_err(text)?;
    let mut pace = Pace::new(mib_per_s_max << 20);
    loop {
        let step = blocking(move || carrying.step().map(|bytes| (carrying, bytes))).await;
        let step = step.map_err(|failure| failure.text)?.map_err(text)?;
        let (next, Some(bytes)) = step else {
            return Ok(());
        };
        pace.wait(bytes).await;
        carrying = next;
    }
}

/// Pipes one program into the other, at a rate, and waits for both.
async fn stream(
    backup: std::process::Command,
    unpack: std::process::Command,
    log: &Path,
    mib_per_s_max: u64,
) -> Result<(), String> {
    let mut backup = {
        let mut command = Command::from(backup);
        command.stdout(Stdio::piped());
        start(command, Stdio::null(), log)?
    };
    let pipe = backup.stdout.take().expect("it was asked for above");
    let (mut unpack, pumping) = if mib_per_s_max == 0 {
        let pipe: Result<Stdio, _> = pipe.try_into();
        let pipe = pipe.map_err(|error| format!("a pipe: {error}"))?;
        (spawn(unpack, pipe, log)?, None)
    } else {
        let mut unpack = spawn(unpack, Stdio::piped(), log)?;
        let into = unpack.stdin.take().expect("it was asked for above");
        (unpack, Some((pipe, into)))
    };
    let pumped = async {
        if let Some((from, into)) = pumping {
            pump(from, into, mib_per_s_max << 20).await;
        }
    };
    let (backed_up, unpacked, ()) = tokio::join!(
        ended("mariadb-backup --backup", &mut backup, log),
        ended("mbstream", &mut unpack, log),
        pumped
    );
    // The first program knows why the second has not got everything.
    backed_up.and(unpacked)
}

/// Carries bytes at a rate. The tool's own `--throttle` counts files, and servers have hundreds of
/// small ones. An error is told by the program on its side.
async fn pump(mut from: ChildStdout, mut into: ChildStdin, bytes_per_s: u64) {
    let mut buffer = vec![0; PUMP_BYTES];
    let mut pace = Pace::new(bytes_per_s);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if into.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        pace.wait(count as u64).await;
    }
}

/// Keeps a transfer to a rate.
struct Pace {
    begun: Instant,
    bytes: u64,
    /// 0 for no limit.
    bytes_per_s: u64,
}

impl Pace {
    fn new(bytes_per_s: u64) -> Pace {
        Pace {
            begun: Instant::now(),
            bytes: 0,
            bytes_per_s,
        }
    }

    /// Waits until so many more bytes may have been carried.
    async fn wait(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes_per_s > 0 {
            let due = Duration::from_secs_f64(self.bytes as f64 / self.bytes_per_s as f64);
            tokio::time::sleep(due.saturating_sub(self.begun.elapsed())).await;
        }
    }
}

fn spawn(command: std::process::Command, input: Stdio, log: &Path) -> Result<Child, String> {
    let mut command = Command::from(command);
    command.stdout(Stdio::null());
    start(command, input, log)
}

/// Ends with whoever waits for it.
fn start(mut command: Command, input: Stdio, log: &Path) -> Result<Child, String> {
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log);
    let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    command.stdin(input).stderr(file).kill_on_drop(true);
    // A group of its own keeps the terminal's Ctrl-C from it, as from the servers.
    command.process_group(0);
    command
        .spawn()
        .map_err(|error| format!("mariadb-backup cannot be run: {error}"))
}

async fn ended(what: &str, child: &mut Child, log: &Path) -> Result<(), String> {
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} ended with {status}; see {}", log.display())),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Writes down how much has arrived, for ever.
async fn measure(files: &Path, order: &BackupOrder) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let files = files.to_owned();
        if let Ok(bytes) = blocking(move || backup::bytes_in(&files)).await {
            order.progress.bytes.store(bytes, Relaxed);
        }
    }
}
