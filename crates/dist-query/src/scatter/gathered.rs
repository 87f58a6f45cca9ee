//! Which fragments of a gathered statement need what: the farm's own tables, names, rows pulled in.

use super::{Part, Scatter, Wanted};
use planner::{Fragment, Merging};
use std::sync::Arc;

/// The statement asks for what the farm's servers were filled with: the names of time zones.
pub(crate) fn needs_farm(text: &str) -> bool {
    names(text, b"CONVERT_TZ")
}

/// The word stands somewhere in the text.
pub(crate) fn names(text: &str, word: &[u8]) -> bool {
    let mut windows = text.as_bytes().windows(word.len());
    windows.any(|at| at.eq_ignore_ascii_case(word))
}

/// A fragment, as it is sent to its groups.
pub(crate) fn pulled(fragment: &Fragment) -> Scatter {
    let groups: &[Arc<str>] = match fragment.any {
        true => &fragment.groups[..1.min(fragment.groups.len())],
        false => &fragment.groups[..],
    };
    let parts = groups.iter().map(|group| Part {
        group: group.clone(),
        text: fragment.text.clone().into_bytes(),
    });
    Scatter {
        parts: parts.collect(),
        answer: Wanted::Rows(Merging::default()),
        clock: false,
        carried: None,
    }
}
