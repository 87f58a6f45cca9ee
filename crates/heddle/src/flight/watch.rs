//! What has the last steps kept while the router runs: a signal, a core that does not answer.

use std::sync::Arc;
use std::time::Duration;

use farm::Published;
use recorder::{Step, note};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::FlightRecorder;
use crate::data_plane::DataPlane;
use crate::host::signals::received;
use crate::router::blocking;

/// Between two looks at the snapshot.
const LOOK: Duration = Duration::from_millis(100);

/// A core that does not answer for so long stands still. Between two events it answers at once.
const STALL: Duration = Duration::from_secs(5);

/// Looks after the flight recorder; never ends.
pub async fn watch(published: Arc<Published>, data_plane: Arc<DataPlane>) {
    let Some(recorder) = data_plane.flight() else {
        return std::future::pending().await;
    };
    let asked = signal(SignalKind::user_defined1());
    let asked = asked
        .inspect_err(|error| tracing::warn!("SIGUSR1 dumps nothing: {error}"))
        .ok();
    tokio::join!(
        dump_when_asked(recorder, asked),
        name(recorder, &published),
        dump_stalls(recorder, &data_plane)
    );
}

async fn dump_when_asked(recorder: &Arc<FlightRecorder>, mut asked: Option<Signal>) {
    loop {
        received(&mut asked).await;
        dump(recorder, "signal").await;
    }
}

async fn dump(recorder: &Arc<FlightRecorder>, cause: &'static str) {
    let recorder = Arc::clone(recorder);
    let dumped = blocking(move || recorder.dump(cause)).await;
    if let Ok(Err(error)) = dumped {
        tracing::warn!(cause, "the last steps are not kept: {error}");
    }
}

/// Keeps the names of servers and groups beside the rings.
async fn name(recorder: &Arc<FlightRecorder>, published: &Published) {
    let mut named = 0;
    loop {
        let snapshot = published.load_full();
        if std::mem::replace(&mut named, snapshot.epoch) != snapshot.epoch {
            let epoch = snapshot.epoch;
            note(0, Step::SnapshotPublished { epoch });
            recorder.name(&snapshot);
        }
        control::pace::next_look(snapshot.origin, LOOK).await;
    }
}

/// Once for each time that a core stands still.
async fn dump_stalls(recorder: &Arc<FlightRecorder>, data_plane: &Arc<DataPlane>) {
    let mut stalled = false;
    loop {
        tokio::time::sleep(STALL).await;
        let cores = Arc::clone(data_plane);
        let answered = blocking(move || cores.cores_answer(STALL)).await;
        let stands = answered == Ok(false);
        if stands && !stalled {
            tracing::error!("a core has not answered for {} s", STALL.as_secs());
            note(0, Step::CoreStalled {});
            dump(recorder, "stall").await;
        }
        stalled = stands;
    }
}
