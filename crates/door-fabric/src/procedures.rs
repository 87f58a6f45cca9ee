//! Procedures that nobody waits for, until somebody asks what became of them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::answer::Done;

/// So many are remembered; then the oldest is forgotten.
const KEPT_MAX: usize = 1000;

/// What became of one; `None` while it runs.
pub type Outcome = Option<Result<Done, String>>;

/// All that began since the router's start.
#[derive(Debug, Default)]
pub struct Procedures(Mutex<VecDeque<(String, watch::Receiver<Outcome>)>>);

impl Procedures {
    /// One of this id begins. What becomes of it goes into the sender.
    pub fn begin(&self, uuid: &str) -> watch::Sender<Outcome> {
        let (tell, told) = watch::channel(None);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT_MAX {
            all.pop_front();
        }
        all.push_back((uuid.to_owned(), told));
        tell
    }

    /// Waits for the end of one; `None` when it is not known.
    pub async fn ended(&self, uuid: &str) -> Option<Result<Done, String>> {
        let mut told = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let found = all.iter().find(|(known, _)| known == uuid);
            found.map(|(_, told)| told.clone())?
        };
        let ended = told.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|outcome| outcome.clone());
        Some(ended.unwrap_or_else(|| Err("the router shut down before it ended".to_owned())))
    }
}
