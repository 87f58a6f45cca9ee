//! What the planner asks of functions by their names.

use sqltext::{FunctionTraits, traits_of};

/// The value depends on the arguments and the session's settings only.
pub(crate) fn is_pure(name: &str) -> bool {
    traits_of(name).contains(FunctionTraits::PURE)
}

/// It tells the time, which is equal where `timestamp` is.
pub(crate) fn is_clock(name: &str) -> bool {
    traits_of(name).contains(FunctionTraits::CLOCK)
}

/// It gives another value with every call, or on every connection or server.
pub(crate) fn varies(name: &str) -> bool {
    traits_of(name).contains(FunctionTraits::VARIES)
}

/// It puts rows together.
pub(crate) fn is_aggregate(name: &str) -> bool {
    traits_of(name).contains(FunctionTraits::AGGREGATE)
}

/// It is the servers' own only where its parenthesis follows at once.
pub(crate) fn stands_close(name: &str) -> bool {
    traits_of(name).contains(FunctionTraits::CLOSE)
}

/// It tells of the session or of its connection: another server would tell something else.
pub(crate) fn is_of_session(name: &str) -> bool {
    traits_of(name).intersects(FunctionTraits::TELLS | FunctionTraits::ACTS)
}

/// It is the servers' own, as far as it is known here, and no sequence is asked.
pub(crate) fn is_built_in(name: &str) -> bool {
    let known = FunctionTraits::PURE
        | FunctionTraits::CLOCK
        | FunctionTraits::VARIES
        | FunctionTraits::AGGREGATE
        | FunctionTraits::TELLS
        | FunctionTraits::SCHEMA
        | FunctionTraits::ACTS;
    let is_sequence = ["nextval", "lastval", "setval"]
        .iter()
        .any(|it| it.eq_ignore_ascii_case(name));
    !is_sequence && traits_of(name).intersects(known)
}

/// The session can be asked for it: without arguments it gives the same all over a statement.
pub(crate) fn is_known_to_session(name: &str) -> bool {
    traits_of(name).intersects(FunctionTraits::TELLS | FunctionTraits::SCHEMA)
}

/// It is called without parentheses, too.
pub(crate) fn is_bare(name: &str) -> bool {
    name.eq_ignore_ascii_case("current_user") || name.eq_ignore_ascii_case("current_role")
}

/// Has an exact number as its value, whatever its arguments are.
pub(crate) fn is_whole(name: &str) -> bool {
    traits_of(name).contains(FunctionTraits::WHOLE)
}
