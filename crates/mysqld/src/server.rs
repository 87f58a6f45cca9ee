//! A running server: started here, or found running and adopted.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::{Binary, Error, Options, template};

/// How often waits look again. A server's start takes some hundred times as long.
const POLL: Duration = Duration::from_millis(5);

/// One server process. Dropping it leaves the process running; only [`Server::stop`] and
/// [`Server::kill`] end it.
#[derive(Debug)]
pub struct Server {
    options: Options,
    pid: Pid,
    /// `None` for an adopted server: it is another process's child, and its end is seen in `/proc`.
    child: Option<Child>,
    /// Where this run's part of the error log begins; what stands before is another run's.
    log_from: u64,
}

impl Server {
    /// Makes the data directory from `template` if there is none, writes the configuration, and
    /// starts the process. Returns when the process runs; [`Server::wait_ready`] tells when it serves.
    ///
    /// # Errors
    /// `PortInUse`, `File`, `BinaryUnusable`.
    pub fn start(binary: &Binary, template: &Path, options: Options) -> Result<Server, Error> {
        let dir = &options.dir;
        fs::create_dir_all(dir).map_err(Error::file("create directory", dir))?;
        let temporary = options.temporary();
        fs::create_dir_all(&temporary).map_err(Error::file("create directory", &temporary))?;
        port_is_free(&options)?;
        template::instantiate(template, &options.data())?;
        let as_root = rustix::process::geteuid().is_root();
        let my_cnf = options.my_cnf();
        fs::write(&my_cnf, options.render(binary, as_root))
            .map_err(Error::file("write", &my_cnf))?;
        // The files of a server that was killed would be taken for those of this one.
        let _ = fs::remove_file(options.pid_file());
        let _ = fs::remove_file(options.socket());
        let log_path = options.error_log();
        let log = || OpenOptions::new().create(true).append(true).open(&log_path);
        let stdout = log().map_err(Error::file("open", &log_path))?;
        let log_from = stdout.metadata().map_or(0, |metadata| metadata.len());
        let stderr = log().map_err(Error::file("open", &log_path))?;
        let child = binary
            .command()
            .arg(format!("--defaults-file={}", my_cnf.display()))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            // A group of its own keeps the terminal's Ctrl-C from the server: it is stopped in order.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::BinaryUnusable {
                path: binary.path.clone(),
                engine: binary.engine.name(),
                reason: error.to_string(),
            })?;
        let pid = Pid::from_child(&child);
        Ok(Server {
            options,
            pid,
            child: Some(child),
            log_from,
        })
    }

    /// The server that already runs on this directory, if there is one: a process that was started with this
    /// directory's configuration. A server that recovers from a crash has no pid file yet, and one that shuts down has none
    /// any more; two servers on the same files destroy them.
    pub fn adopt(options: Options) -> Option<Server> {
        let pid = processes().find(|pid| runs_on(*pid, &options))?;
        Some(Server {
            options,
            pid,
            child: None,
            log_from: 0,
        })
    }

    /// Waits until the server sends its greeting to a TCP client.
    ///
    /// # Errors
    /// `Ended` when the process ends first, `Silent` after `patience`; both quote the error log.
    pub fn wait_ready(&mut self, patience: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        while !greets(self.options.port) {
            if let Some(status) = self.ended() {
                let log = self.options.error_log();
                return Err(Error::Ended {
                    name: self.name(),
                    status,
                    tail: tail(&log, self.log_from),
                    log,
                });
            }
            if begin.elapsed() > patience {
                let log = self.options.error_log();
                let waited_s = patience.as_secs();
                return Err(Error::Silent {
                    name: self.name(),
                    waited_s,
                    tail: tail(&log, self.log_from),
                    log,
                });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// True while the process lives, whether or not it answers.
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => runs_on(self.pid, &self.options),
        }
    }

    /// Asks the server to shut down in order and waits; after `patience` it is killed, which loses
    /// nothing that was acknowledged but costs a recovery at the next start.
    ///
    /// # Errors
    /// `Unstoppable` when even SIGKILL does not end it.
    pub fn stop(&mut self, patience: Duration) -> Result<(), Error> {
        self.ask_to_stop();
        if self.wait_end(patience) {
            return Ok(());
        }
        self.kill()
    }

    /// Sends SIGTERM and returns at once, so that several servers can shut down side by side.
    pub fn ask_to_stop(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Ends the process at once, as a crash would.
    ///
    /// # Errors
    /// `Unstoppable` when the process is still there after 10 s, for example in a hung disk access.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.signal(Signal::KILL);
        if self.wait_end(Duration::from_secs(10)) {
            return Ok(());
        }
        Err(Error::Unstoppable {
            name: self.name(),
            pid: self.pid(),
        })
    }

    /// Sends a signal to the process if it still is this server. A stopped process is continued
    /// first when it has to act on SIGTERM.
    pub fn signal(&mut self, signal: Signal) {
        // An ended child that is not yet waited for keeps its pid, so the signal cannot hit another
        // process; an adopted one is looked at right before.
        if self.is_running() {
            let _ = rustix::process::kill_process(self.pid, signal);
            if signal == Signal::TERM {
                let _ = rustix::process::kill_process(self.pid, Signal::CONT);
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.options.port))
    }

    fn name(&self) -> String {
        self.options.name.clone()
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        match &mut self.child {
            Some(child) => child.try_wait().ok().flatten(),
            None => (!runs_on(self.pid, &self.options)).then(ExitStatus::default),
        }
    }

    fn wait_end(&mut self, patience: Duration) -> bool {
        let begin = Instant::now();
        while self.is_running() {
            if begin.elapsed() > patience {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }
}

/// All processes that this user can see.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// A process is this server when it was started with this directory's configuration file: pids are
/// used again, command lines tell them apart. A zombie has no command line and counts as ended.
fn runs_on(pid: Pid, options: &Options) -> bool {
    let argument = format!("--defaults-file={}", options.my_cnf().display());
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).is_ok_and(|line| {
        line.split(|&byte| byte == 0)
            .any(|word| word == argument.as_bytes())
    })
}

/// Bound and released again: the server itself would only say so in its log, after some seconds.
fn port_is_free(options: &Options) -> Result<(), Error> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Error::PortInUse {
            name: options.name.clone(),
            port: options.port,
        }),
        _ => Ok(()),
    }
}

/// Connects and looks at the first packet: a stopped process or one that is still recovering accepts
/// connections but says nothing; protocol version 10 is a server that serves.
fn greets(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let patience = Duration::from_millis(500);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, patience) else {
        return false;
    };
    let mut start = [0; 5];
    stream.set_read_timeout(Some(patience)).is_ok()
        && stream.read_exact(&mut start).is_ok()
        && start[4] == 10
}

/// The last lines of a log that say something of an error, in one line for an operator.
fn tail(log: &Path, from: u64) -> String {
    let mut text = String::new();
    if let Ok(mut file) = File::open(log) {
        let end = file.seek(SeekFrom::End(0)).unwrap_or(0);
        let _ = file.seek(SeekFrom::Start(from.max(end.saturating_sub(8192))));
        let mut bytes = Vec::new();
        let _ = file.read_to_end(&mut bytes);
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("[ERROR]"))
        .collect();
    let chosen = if errors.is_empty() {
        text.lines().collect()
    } else {
        errors
    };
    let from = chosen.len().saturating_sub(3);
    if chosen.is_empty() {
        "(empty)".to_owned()
    } else {
        chosen[from..].join(" | ")
    }
}
