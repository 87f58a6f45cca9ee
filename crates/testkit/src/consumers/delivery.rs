//! Sinks: a webhook whose receiver fails now and then, and files. What comes twice has the same id.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::receiver::{Posted, Receiver};

use super::copy::Copy;
use super::course::Course;

/// What a receiver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It takes what comes.
    Well,
    /// It takes it, and dies before it answers.
    Silent,
    /// It dies before it takes it.
    Dead,
}

/// What a webhook was told.
struct Hook {
    copy: Copy,
    /// Ids of the events that were taken.
    ids: HashSet<u64>,
    is_broken: bool,
}

/// The receiver of a webhook.
pub struct Webhook {
    pub receiver: Receiver,
    hook: Arc<Mutex<Hook>>,
    manner: Arc<AtomicU8>,
}

impl Webhook {
    /// With this copy of the farm.
    pub fn start(copy: Copy, course: &Arc<Course>) -> Webhook {
        let hook = Arc::new(Mutex::new(Hook {
            copy,
            ids: HashSet::new(),
            is_broken: false,
        }));
        let manner = Arc::new(AtomicU8::new(Manner::Well as u8));
        let (taker, course, mood) = (Arc::clone(&hook), Arc::clone(course), Arc::clone(&manner));
        let receiver = Receiver::start(move |posted| {
            let mood = mood.load(Relaxed);
            if mood == Manner::Dead as u8 {
                return None;
            }
            let mut hook = taker.lock().unwrap_or_else(PoisonError::into_inner);
            if !hook.is_broken
                && let Err(why) = hook.take(posted)
            {
                course.complain(format!("webhook: {why}"));
                hook.is_broken = true;
            }
            (mood == Manner::Well as u8).then_some(200)
        });
        Webhook {
            receiver,
            hook,
            manner,
        }
    }

    pub fn behave(&self, manner: Manner) {
        self.manner.store(manner as u8, Relaxed);
    }

    /// What it has.
    pub fn with_copy<T>(&self, with: impl FnOnce(&mut Copy) -> T) -> T {
        let mut hook: MutexGuard<'_, Hook> =
            self.hook.lock().unwrap_or_else(PoisonError::into_inner);
        with(&mut hook.copy)
    }
}

impl Hook {
    /// Takes what did not come before.
    fn take(&mut self, posted: &Posted) -> Result<(), String> {
        for event in posted.events() {
            // The first event of a table in each delivery has the id of its place.
            if event["event"] == "columns" {
                continue;
            }
            let id = event["id"]
                .as_str()
                .ok_or_else(|| format!("no id: {event}"))?;
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            if self.ids.insert(hasher.finish()) {
                self.copy.take(&event)?;
            }
        }
        Ok(())
    }
}

/// The files of a sink.
pub struct Files {
    pub dir: PathBuf,
    pub copy: Copy,
    /// Lines that were taken.
    taken: usize,
}

impl Files {
    pub fn new(dir: PathBuf, copy: Copy) -> Files {
        Files {
            dir,
            copy,
            taken: 0,
        }
    }

    /// Takes the lines that came since. None of them comes twice.
    ///
    /// # Errors
    /// What is there cannot be.
    pub fn take(&mut self) -> Result<(), String> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|it| it.contains(".ndjson")).collect();
        names.sort();
        let mut number = 0;
        for name in names {
            // One that was closed since is read the next time.
            let Ok(bytes) = std::fs::read(self.dir.join(&name)) else {
                return Ok(());
            };
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                // The end of what is written now.
                if !line.ends_with(b"\n") {
                    break;
                }
                number += 1;
                if number <= self.taken {
                    continue;
                }
                let event: Value = serde_json::from_slice(line)
                    .map_err(|error| format!("{name}: {error}: {line:?}"))?;
                self.copy.take(&event)?;
                self.taken = number;
            }
        }
        Ok(())
    }
}
