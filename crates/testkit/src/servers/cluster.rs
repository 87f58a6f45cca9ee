//! A real Galera cluster: nodes of the distribution's MariaDB on loopback.
//!
//! Nodes join by a state transfer with rsync, which a node that runs as root cannot do: there they run
//! as the package's user `mysql`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::client::{Client, Reply};
use crate::servers::keeper;
use crate::servers::ports::free_port;
use crate::servers::server::Release;
use crate::wait::holds_within;

/// Debian's galera-4.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// A node takes seconds to join, on a loaded machine many.
const JOIN_PATIENCE: Duration = Duration::from_secs(120);

/// Running nodes; killed when dropped.
pub struct Cluster {
    nodes: Vec<Node>,
    dir: TempDir,
}

/// One node.
pub struct Node {
    child: Option<Child>,
    dir: PathBuf,
    binary: PathBuf,
    port: u16,
    /// For the cluster's own traffic.
    group_port: u16,
}

impl Cluster {
    /// Starts so many nodes one after the other, or says why the test is skipped.
    ///
    /// # Panics
    /// When a node does not join.
    pub fn start(nodes: usize) -> Option<Cluster> {
        if !Path::new(PROVIDER).exists() || !on_path("rsync") {
            crate::skip(&"galera-4 or rsync is not installed");
            return None;
        }
        if is_root() && !everybody_writes("/dev/null") {
            crate::skip(
                &"not everybody may write to /dev/null, where nodes that join must (chmod 666)",
            );
            return None;
        }
        let binary = match Release::Installed.binary() {
            Ok(binary) => binary,
            Err(reason) => {
                crate::skip(&reason);
                return None;
            }
        };
        let cache = mysqld::cache_dir(&std::env::temp_dir());
        let template = mysqld::template(&binary, &cache).expect("a template of a data directory");
        let dir = tempfile::Builder::new().prefix("heddle-galera-").tempdir();
        let dir = dir.expect("a temporary directory");
        keeper::keep(dir.path());
        open_to_others(dir.path());
        let mut cluster = Cluster {
            nodes: Vec::new(),
            dir,
        };
        for at in 0..nodes {
            let home = cluster.dir.path().join(format!("n{at}"));
            fs::create_dir_all(&home).expect("a directory");
            copy(&template, &home.join("data"));
            let (port, group_port) = (free_port(), free_port());
            cluster.nodes.push(Node {
                child: None,
                dir: home,
                binary: binary.path.clone(),
                port,
                group_port,
            });
        }
        for at in 0..nodes {
            cluster.run(at, at == 0);
            cluster.wait_synced(at);
        }
        Some(cluster)
    }

    /// Where clients of a node connect.
    pub fn address(&self, at: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.nodes[at].port))
    }

    /// A connection as `root` past Heddle.
    ///
    /// # Panics
    /// When the node refuses it.
    #[track_caller]
    pub fn client(&self, at: usize) -> Client {
        Client::connect(self.address(at), "root", "").expect("root has no password")
    }

    /// kill -9.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self, at: usize) {
        let mut child = self.nodes[at].child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("a killed child ends");
    }

    /// Starts a killed node again, which joins the others.
    ///
    /// # Panics
    /// When it does not join.
    pub fn restart(&mut self, at: usize) {
        self.run(at, false);
        self.wait_synced(at);
    }

    fn run(&mut self, at: usize, first: bool) {
        let others = self.nodes.iter();
        let members: Vec<String> = others
            .map(|node| format!("127.0.0.1:{}", node.group_port))
            .collect();
        let node = &mut self.nodes[at];
        let file = node.dir.join("my.cnf");
        fs::write(&file, node.render(at, &members.join(","))).expect("written");
        let root = is_root();
        if root {
            let owner = Command::new("chown")
                .args(["-R", "mysql"])
                .arg(&node.dir)
                .status();
            assert!(owner.is_ok_and(|status| status.success()), "user mysql");
        }
        let log = File::create(node.dir.join("out")).expect("a file for its messages");
        let mut command = Command::new(&node.binary);
        command
            .arg(format!("--defaults-file={}", file.display()))
            .args(root.then_some("--user=mysql"))
            .args(first.then_some("--wsrep-new-cluster"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        node.child = Some(command.spawn().expect("the server can be run"));
    }

    #[track_caller]
    fn wait_synced(&mut self, at: usize) {
        let address = self.address(at);
        let out = self.nodes[at].dir.join("out");
        let said = || fs::read_to_string(&out).unwrap_or_default();
        let child = self.nodes[at].child.as_mut().expect("it runs");
        let synced = holds_within(JOIN_PATIENCE, || {
            if let Some(status) = child.try_wait().expect("a child can be asked") {
                panic!("node {at} ended ({status}): {}", said());
            }
            let Ok(mut client) = Client::connect(address, "root", "") else {
                return false;
            };
            let state = client.query("SHOW STATUS LIKE 'wsrep_local_state_comment'");
            match state.ok().and_then(|mut replies| replies.pop()) {
                Some(Reply::Rows(rows)) => format!("{:?}", rows.text()).contains("Synced"),
                _ => false,
            }
        });
        assert!(
            synced,
            "node {at} is not Synced after {JOIN_PATIENCE:?}: {}",
            said()
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                // Nothing can be done about a process that survives SIGKILL, least of all in a panic.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        keeper::forget(self.dir.path());
    }
}

impl Node {
    fn render(&self, at: usize, members: &str) -> String {
        let dir = self.dir.display();
        let (port, group_port) = (self.port, self.group_port);
        let (transfer, increment) = (free_port(), free_port());
        let mut text = String::from("[mysqld]\n");
        let lines = [
            format!("datadir={dir}/data"),
            format!("socket={dir}/sock"),
            format!("pid_file={dir}/pid"),
            format!("port={port}"),
            format!("server_id={}", at + 1),
            format!("wsrep_node_name=n{at}"),
            format!("wsrep_cluster_address=gcomm://{members}"),
            format!("wsrep_sst_receive_address=127.0.0.1:{transfer}"),
            format!(
                "wsrep_provider_options=\"gmcast.listen_addr=tcp://127.0.0.1:{group_port};\
                 ist.recv_addr=127.0.0.1:{increment};gcache.size=16M\""
            ),
            format!("wsrep_provider={PROVIDER}"),
        ];
        for line in lines {
            writeln!(text, "{line}").expect("writing to a String cannot fail");
        }
        text.push_str(
            "bind_address=127.0.0.1\nwsrep_on=ON\nwsrep_node_address=127.0.0.1\n\
             wsrep_sst_method=rsync\nbinlog_format=ROW\ninnodb_autoinc_lock_mode=2\n\
             innodb_flush_log_at_trx_commit=0\ninnodb_buffer_pool_size=32M\nskip_ssl\n",
        );
        text
    }
}

/// Servers that run as another user must reach their directories.
fn open_to_others(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("its owner may");
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn everybody_writes(path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o002 != 0)
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(status.is_ok_and(|status| status.success()), "a copy");
}

fn on_path(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).exists())
}
