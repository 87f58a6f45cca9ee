//! A control plane and its HTTP door, running for as long as a test wants.

use std::sync::Arc;

use control::{Control, Credentials};
use door_http::Door;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Both of them; ended by [`Running::end`].
pub struct Running {
    door: Door,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts them.
    pub fn start(control: &Arc<Control>, door: Door) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let running = Arc::clone(control).run(async {
            let _ = stopped.await;
        });
        door.serve(true);
        Running {
            door,
            stop,
            task: tokio::spawn(running),
        }
    }

    /// Ends the door, then the control plane.
    pub async fn end(self) {
        self.door.close().await;
        self.stop.send(()).expect("it waits for this");
        self.task.await.expect("no panic");
    }
}

/// Those of servers that a test never reaches.
pub fn credentials() -> Credentials {
    Credentials {
        user: "root".to_owned(),
        password: String::new(),
        replication_user: "root".to_owned(),
        replication_password: String::new(),
        tls: control::LinkTls::Off,
    }
}

/// Where there are no containers.
#[allow(dead_code, reason = "not every test has rows")]
pub struct NoRows;

impl door_http::Rows for NoRows {
    fn ask(
        &self,
        _: door_http::Wanted,
    ) -> std::pin::Pin<Box<dyn Future<Output = door_http::Told> + Send>> {
        Box::pin(std::future::ready(door_http::Told::NoContainer))
    }
}
