//! What is told of early writes, those of key-value clients that are acknowledged before their commit: which
//! containers have them, which ones want them and may not, and what is lost of them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use catalog::event::Event;
use farm::Container;

use crate::context::Context;

/// What was told of and is so still: kinds of events, and what they say.
#[derive(Debug, Default)]
pub(crate) struct EarlyNews(Mutex<BTreeSet<(&'static str, String)>>);

impl EarlyNews {
    /// Tells once what is so now, beside the containers of `kv create` by those of the plugin, one of whose
    /// options may have been unreadable.
    pub(crate) fn tell(&self, context: &Context, plugin: &[Container], unread: Option<&str>) {
        let allowed = context.reads.early.commit_within().is_some();
        let declared = context.state().records.containers.clone();
        let of_plugin = plugin.iter().filter(|it| declared.get(&it.name).is_none());
        let all = declared.iter().map(|it| &**it).chain(of_plugin);
        let mut now: BTreeSet<(&'static str, String)> = all
            .filter(|container| container.w_batch_size > 1)
            .map(|container| about(container, allowed))
            .collect();
        now.extend(unread.map(|text| {
            let why = format!(
                "w_batch_size in innodb_memcache.config_options is no number ({text}) and counts as 1: correct it"
            );
            ("kv_option_refused", why)
        }));
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *told, now.clone());
        drop(told);
        for (kind, detail) in now.difference(&before) {
            context.happened(Event::now(kind, "", detail.clone()));
        }
    }
}

fn about(container: &Container, allowed: bool) -> (&'static str, String) {
    let (name, size) = (&container.name, container.w_batch_size);
    match allowed {
        true => {
            let text = format!(
                "container {name} (w_batch_size={size}) acknowledges plain sets BEFORE their commit, as \
                 kv_ack_before_commit allows: up to {} on each core of each router are lost if that router ends \
                 without its drain",
                size - 1
            );
            ("kv_acks_before_commit", text)
        }
        false => {
            let text = format!(
                "container {name} wants {size} writes in one commit (w_batch_size), acknowledged before it; \
                 Heddle acknowledges what is committed, and writes that come together share a commit by \
                 themselves: set the option to 1, or kv_ack_before_commit = on to acknowledge what may be lost"
            );
            ("kv_option_refused", text)
        }
    }
}

/// Tells of early writes that were lost since this was called last.
pub(crate) fn tell_losses(context: &Context) {
    for loss in context.reads.early.take_losses() {
        let (writes, container, why) = (loss.writes, loss.container, loss.why);
        let text = format!(
            "{writes} writes of container {container} were acknowledged and then not committed, as far as this \
             router knows: {why}"
        );
        context.happened(Event::now("kv_acks_lost", "", text));
    }
}
