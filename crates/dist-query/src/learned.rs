//! How much fetches gave, by their shapes: taken down, and looked up.
//!
//! Invariants: sizes change how much moves, never what is answered; nobody is waited for.
//!
//! Must not know: how a statement is answered by them.

use execute::per_core::Core;
use execute::per_core::plans::fetches;
use execute::scratch::learned::Basis;
use execute::variables::session_variables::SessionVariables;
use farm::Sharding;
use planner::{Answer, Finish, Fragment, Ran, Reduced, Seen, Sending, Volume};
use sqltext::{Digest, Mode, tables};

/// What a statement moved before that is gathered so; nothing where nobody knows.
pub(crate) fn ran(core: &Core, variables: &SessionVariables, answer: &Answer) -> Ran {
    let snapshot = core.shared.published.load();
    let Some(sharding) = snapshot.sharding.as_ref().filter(|_| is_learned(answer)) else {
        return Ran::default();
    };
    let of = bases(sharding, answer, &variables.mode);
    let shape = fetches(answer, &variables.mode);
    let learned = &core.shared.scratch.learned;
    learned.look(sharding.epoch, &shape, &of, core.now_s.get()).unwrap_or_default()
}

/// What each fragment of a gather gave when it was fetched without values of others.
pub(crate) fn each_whole(
    core: &Core,
    variables: &SessionVariables,
    answer: &Answer,
) -> Vec<Option<Seen>> {
    let snapshot = core.shared.published.load();
    let (Some(sharding), Finish::Scratch(scratch)) = (&snapshot.sharding, &answer.finish) else {
        return Vec::new();
    };
    let seen = |(reduced, fragment): (&Reduced, &Fragment)| {
        let whole = reduced.alone(fragment);
        let of = [basis(sharding, &whole, &variables.mode)];
        let shape = Digest::of(whole.text.as_bytes(), &variables.mode);
        let learned = &core.shared.scratch.learned;
        let ran = learned.look(sharding.epoch, &shape, &of, core.now_s.get())?;
        ran.fetches.first().copied()
    };
    scratch.reduced.iter().zip(&answer.fragments).map(seen).collect()
}

/// All fetches of a gather gave so much, one after the other, and its statement so much in the end.
pub(crate) fn learn_gathered(
    core: &Core,
    variables: &SessionVariables,
    answer: &Answer,
    volumes: &[Volume],
    result: Volume,
) {
    let snapshot = core.shared.published.load();
    let Some(sharding) = snapshot.sharding.as_ref().filter(|_| is_learned(answer)) else {
        return;
    };
    let of = bases(sharding, answer, &variables.mode);
    let each: Vec<(Volume, Basis)> = volumes.iter().copied().zip(of).collect();
    let shape = fetches(answer, &variables.mode);
    let learned = &core.shared.scratch.learned;
    learned.learn(sharding.epoch, shape, &each, Some(result), core.now_s.get());
}

/// Groups gave so much that had been sent tables instead of a gather.
pub(crate) fn learn_rest(
    core: &Core,
    variables: &SessionVariables,
    sending: &Sending,
    volume: Volume,
) {
    let snapshot = core.shared.published.load();
    let Some(sharding) = &snapshot.sharding else {
        return;
    };
    let shape = fetches(&sending.instead, &variables.mode);
    let learned = &core.shared.scratch.learned;
    learned.learn_rest(sharding.epoch, &shape, &sending.places, volume);
}

/// A fragment gave so much, without values of others.
pub(crate) fn learn_whole(
    core: &Core,
    variables: &SessionVariables,
    fragment: &Fragment,
    volume: Volume,
) {
    let snapshot = core.shared.published.load();
    let Some(sharding) = &snapshot.sharding else {
        return;
    };
    let each = [(volume, basis(sharding, fragment, &variables.mode))];
    let shape = Digest::of(fragment.text.as_bytes(), &variables.mode);
    let learned = &core.shared.scratch.learned;
    learned.learn(sharding.epoch, shape, &each, None, core.now_s.get());
}

/// It has fetches that may be told apart from those of others.
fn is_learned(answer: &Answer) -> bool {
    matches!(answer.finish, Finish::Scratch(_)) && answer.fragments.len() > 1 && !answer.locks
}

fn bases(sharding: &Sharding, answer: &Answer, mode: &Mode) -> Vec<Basis> {
    answer.fragments.iter().map(|it| basis(sharding, it, mode)).collect()
}

fn basis(sharding: &Sharding, fragment: &Fragment, mode: &Mode) -> Basis {
    Basis {
        groups: if fragment.any {
            1
        } else {
            fragment.groups.len()
        },
        rows: measured(sharding, fragment, mode),
    }
}

/// The rows of a fragment's table on its groups, as they were measured.
pub(crate) fn measured(sharding: &Sharding, fragment: &Fragment, mode: &Mode) -> Option<u64> {
    let first = tables(fragment.text.as_bytes(), mode).into_iter().next()?;
    let database = String::from_utf8_lossy(first.database.as_deref()?);
    let table = String::from_utf8_lossy(&first.name);
    sharding.measured().rows((&database, &table), &fragment.groups, fragment.any)
}
