//! The servers' own functions, by name: what may be done with a statement that calls them.
//!
//! Job: one table of names and traits. Who decides about retries, pushdown, routing or pinning asks it, so
//! that no two places know different things of a function.
//!
//! Invariants: a name that is not in the table has no trait, and whoever asks takes that for the worst: a
//! routine of a user's may have any name. A trait is given only where it holds on every engine and release
//! that has the function.
//!
//! Must not know: the statement around a call, schemas, routines of users.

use std::cmp::Ordering;

use bitflags::bitflags;

bitflags! {
    /// What is known of a function.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FunctionTraits: u16 {
        /// The value depends on the arguments and on the session's settings only.
        const PURE = 1;
        /// It tells the time, which is equal where `timestamp` is.
        const CLOCK = 1 << 1;
        /// It gives another value with every call, or on every connection or server.
        const VARIES = 1 << 2;
        /// It puts rows together.
        const AGGREGATE = 1 << 3;
        /// It is the server's own only where the parenthesis follows at once. Both manuals list such names
        /// («Function Name Parsing and Resolution»); aggregates and windows are parsed alike.
        const CLOSE = 1 << 4;
        /// It tells of the session what only its own connection knows.
        const TELLS = 1 << 5;
        /// It tells of the session what can be made equal on another server.
        const SCHEMA = 1 << 6;
        /// It does something on the session's connection, or looks at its server.
        const ACTS = 1 << 7;
        /// Its value is an exact number, whatever its arguments are.
        const WHOLE = 1 << 8;
        /// It has none of the other traits and changes no table.
        const QUIET = 1 << 9;
        /// Not every engine and release has it: elsewhere a user's routine may have its name.
        const ONE = 1 << 10;
    }
}

use list::FUNCTIONS;

/// What is known of the function of this name, in any case of letters; nothing of others.
pub fn traits_of(name: &str) -> FunctionTraits {
    let found = FUNCTIONS.binary_search_by(|(known, _)| compare(known, name));
    found.map_or(FunctionTraits::empty(), |at| FUNCTIONS[at].1)
}

/// A call surely changes no table. `spaced` says that something stands between the name and its parenthesis.
pub fn is_quiet(name: &str, spaced: bool) -> bool {
    let harmless = FunctionTraits::PURE
        | FunctionTraits::CLOCK
        | FunctionTraits::AGGREGATE
        | FunctionTraits::TELLS
        | FunctionTraits::SCHEMA
        | FunctionTraits::QUIET;
    let traits = traits_of(name);
    let may_be_a_routine =
        traits.contains(FunctionTraits::ONE) || spaced && traits.contains(FunctionTraits::CLOSE);
    !may_be_a_routine && traits.intersects(harmless)
}

/// Compares a lower-case name with one of any case.
fn compare(known: &str, name: &str) -> Ordering {
    let name = name.bytes().map(|byte| byte.to_ascii_lowercase());
    known.bytes().cmp(name)
}

mod list {
    use super::FunctionTraits;

    const PURE: FunctionTraits = FunctionTraits::PURE;
    const CLOCK: FunctionTraits = FunctionTraits::CLOCK;
    const VARIES: FunctionTraits = FunctionTraits::VARIES;
    const AGGREGATE: FunctionTraits = FunctionTraits::AGGREGATE;
    const CLOSE: FunctionTraits = FunctionTraits::CLOSE;
    const TELLS: FunctionTraits = FunctionTraits::TELLS;
    const SCHEMA: FunctionTraits = FunctionTraits::SCHEMA;
    const ACTS: FunctionTraits = FunctionTraits::ACTS;
    const WHOLE: FunctionTraits = FunctionTraits::WHOLE;
    const QUIET: FunctionTraits = FunctionTraits::QUIET;
    const ONE: FunctionTraits = FunctionTraits::ONE;

    /// In order of the names.
    pub(super) const FUNCTIONS: &[(&str, FunctionTraits)] = &[
        ("abs", PURE),
        ("acos", PURE),
        ("adddate", PURE.union(CLOSE)),
        ("addtime", PURE),
        ("any_value", AGGREGATE.union(ONE)),
        ("ascii", PURE.union(WHOLE)),
        ("asin", PURE),
        ("atan", PURE),
        ("atan2", PURE),
        ("avg", AGGREGATE),
        ("bin", PURE),
        ("bit_and", AGGREGATE.union(CLOSE)),
        ("bit_count", PURE),
        ("bit_length", PURE.union(WHOLE)),
        ("bit_or", AGGREGATE.union(CLOSE)),
        ("bit_xor", AGGREGATE.union(CLOSE)),
        ("cast", PURE.union(CLOSE)),
        ("ceil", PURE.union(WHOLE)),
        ("ceiling", PURE.union(WHOLE)),
        ("char", PURE),
        ("char_length", PURE.union(WHOLE)),
        ("character_length", PURE.union(WHOLE)),
        ("chr", PURE),
        ("coalesce", PURE),
        ("concat", PURE),
        ("concat_ws", PURE),
        ("connection_id", VARIES.union(TELLS)),
        ("conv", PURE),
        ("convert", PURE),
        ("convert_tz", PURE),
        ("cos", PURE),
        ("cot", PURE),
        ("count", AGGREGATE.union(CLOSE).union(WHOLE)),
        ("crc32", PURE),
        ("cume_dist", PURE.union(CLOSE)),
        ("curdate", CLOCK.union(CLOSE)),
        ("current_date", CLOCK),
        ("current_role", TELLS),
        ("current_time", CLOCK),
        ("current_timestamp", CLOCK),
        ("current_user", TELLS),
        ("curtime", CLOCK.union(CLOSE)),
        ("database", SCHEMA),
        ("date", PURE),
        ("date_add", PURE.union(CLOSE)),
        ("date_format", PURE.union(CLOSE)),
        ("date_sub", PURE.union(CLOSE)),
        ("datediff", PURE.union(WHOLE)),
        ("day", PURE.union(WHOLE)),
        ("dayname", PURE),
        ("dayofmonth", PURE.union(WHOLE)),
        ("dayofweek", PURE.union(WHOLE)),
        ("dayofyear", PURE.union(WHOLE)),
        ("decode", CLOSE),
        ("degrees", PURE),
        ("dense_rank", PURE.union(CLOSE).union(WHOLE)),
        ("elt", PURE),
        ("exp", PURE),
        ("export_set", PURE),
        ("extract", PURE.union(CLOSE)),
        ("extractvalue", PURE),
        ("field", PURE.union(WHOLE)),
        ("find_in_set", PURE),
        ("first_value", PURE.union(CLOSE)),
        ("floor", PURE),
        ("format", PURE),
        ("found_rows", VARIES.union(TELLS)),
        ("from_base64", PURE),
        ("from_days", PURE),
        ("from_unixtime", PURE),
        ("get_format", PURE),
        ("get_lock", VARIES.union(ACTS)),
        ("greatest", PURE),
        ("group_concat", AGGREGATE.union(CLOSE)),
        ("grouping", AGGREGATE.union(ONE)),
        ("hex", PURE),
        ("hour", PURE.union(WHOLE)),
        ("if", PURE),
        ("ifnull", PURE),
        ("inet6_aton", PURE),
        ("inet6_ntoa", PURE),
        ("inet_aton", PURE),
        ("inet_ntoa", PURE),
        ("insert", PURE),
        ("instr", PURE.union(WHOLE)),
        ("interval", PURE),
        ("is_free_lock", VARIES.union(ACTS)),
        ("is_used_lock", VARIES.union(ACTS)),
        ("isnull", PURE),
        ("json_array", PURE),
        ("json_array_append", PURE),
        ("json_array_insert", PURE),
        ("json_arrayagg", AGGREGATE.union(CLOSE)),
        ("json_contains", PURE),
        ("json_contains_path", PURE),
        ("json_depth", PURE),
        ("json_exists", PURE.union(ONE)),
        ("json_extract", PURE),
        ("json_insert", PURE),
        ("json_keys", PURE),
        ("json_length", PURE),
        ("json_merge", PURE),
        ("json_merge_patch", PURE),
        ("json_merge_preserve", PURE),
        ("json_object", PURE),
        ("json_objectagg", AGGREGATE.union(CLOSE)),
        ("json_overlaps", PURE.union(ONE)),
        ("json_pretty", PURE.union(ONE)),
        ("json_query", PURE.union(ONE)),
        ("json_quote", PURE),
        ("json_remove", PURE),
        ("json_replace", PURE),
        ("json_search", PURE),
        ("json_set", PURE),
        ("json_type", PURE),
        ("json_unquote", PURE),
        ("json_valid", PURE),
        ("json_value", PURE.union(ONE)),
        ("lag", PURE.union(CLOSE)),
        ("last_day", PURE),
        ("last_insert_id", TELLS),
        ("last_value", PURE.union(CLOSE)),
        ("lastval", VARIES.union(ACTS).union(ONE)),
        ("lcase", PURE),
        ("lead", PURE.union(CLOSE)),
        ("least", PURE),
        ("left", PURE),
        ("length", PURE.union(WHOLE)),
        ("ln", PURE),
        ("load_file", VARIES.union(ACTS)),
        ("localtime", CLOCK),
        ("localtimestamp", CLOCK),
        ("locate", PURE.union(WHOLE)),
        ("log", PURE),
        ("log10", PURE),
        ("log2", PURE),
        ("lower", PURE),
        ("lpad", PURE),
        ("ltrim", PURE),
        ("make_set", PURE),
        ("makedate", PURE),
        ("maketime", PURE),
        ("master_pos_wait", ACTS),
        ("max", AGGREGATE.union(CLOSE)),
        ("md5", PURE),
        ("median", AGGREGATE.union(CLOSE).union(ONE)),
        ("microsecond", PURE),
        ("mid", PURE.union(CLOSE)),
        ("min", AGGREGATE.union(CLOSE)),
        ("minute", PURE.union(WHOLE)),
        ("mod", PURE),
        ("month", PURE.union(WHOLE)),
        ("monthname", PURE),
        ("nextval", VARIES.union(ACTS).union(ONE)),
        ("now", CLOCK.union(CLOSE)),
        ("nth_value", PURE.union(CLOSE)),
        ("ntile", PURE.union(CLOSE)),
        ("nullif", PURE),
        ("oct", PURE),
        ("octet_length", PURE),
        ("ord", PURE),
        ("percent_rank", PURE.union(CLOSE)),
        ("percentile_cont", AGGREGATE.union(ONE)),
        ("period_add", PURE),
        ("period_diff", PURE),
        ("pi", PURE),
        ("position", PURE.union(CLOSE)),
        ("pow", PURE),
        ("power", PURE),
        ("quarter", PURE.union(WHOLE)),
        ("quote", PURE),
        ("radians", PURE),
        ("rand", VARIES),
        ("random_bytes", VARIES),
        ("rank", PURE.union(CLOSE).union(WHOLE)),
        ("regexp_instr", PURE),
        ("regexp_like", PURE.union(ONE)),
        ("regexp_replace", PURE),
        ("regexp_substr", PURE),
        ("release_all_locks", VARIES.union(ACTS)),
        ("release_lock", VARIES.union(ACTS)),
        ("repeat", PURE),
        ("replace", PURE),
        ("reverse", PURE),
        ("right", PURE),
        ("round", PURE),
        ("row_count", VARIES.union(TELLS)),
        ("row_number", PURE.union(CLOSE).union(WHOLE)),
        ("rpad", PURE),
        ("rtrim", PURE),
        ("schema", SCHEMA),
        ("sec_to_time", PURE),
        ("second", PURE.union(WHOLE)),
        ("session_user", CLOSE.union(TELLS)),
        ("setval", ACTS.union(ONE)),
        ("sha", PURE),
        ("sha1", PURE),
        ("sha2", PURE),
        ("sign", PURE.union(WHOLE)),
        ("sin", PURE),
        ("sleep", QUIET),
        ("soundex", PURE),
        ("space", PURE),
        ("sqrt", PURE),
        ("std", AGGREGATE.union(CLOSE)),
        ("stddev", AGGREGATE.union(CLOSE)),
        ("stddev_pop", AGGREGATE.union(CLOSE)),
        ("stddev_samp", AGGREGATE.union(CLOSE)),
        ("str_to_date", PURE),
        ("strcmp", PURE),
        ("subdate", PURE.union(CLOSE)),
        ("substr", PURE.union(CLOSE)),
        ("substring", PURE.union(CLOSE)),
        ("substring_index", PURE),
        ("subtime", PURE),
        ("sum", AGGREGATE.union(CLOSE)),
        ("sys_guid", VARIES.union(ONE)),
        ("sysdate", VARIES.union(CLOSE)),
        ("system_user", CLOSE.union(TELLS)),
        ("tan", PURE),
        ("time", PURE),
        ("time_format", PURE),
        ("time_to_sec", PURE),
        ("timediff", PURE),
        ("timestamp", PURE),
        ("timestampadd", PURE),
        ("timestampdiff", PURE),
        ("to_base64", PURE),
        ("to_days", PURE),
        ("to_seconds", PURE),
        ("trim", PURE.union(CLOSE)),
        ("truncate", PURE),
        ("ucase", PURE),
        ("unhex", PURE),
        ("unix_timestamp", CLOCK),
        ("upper", PURE),
        ("user", TELLS),
        ("utc_date", CLOCK),
        ("utc_time", CLOCK),
        ("utc_timestamp", CLOCK),
        ("uuid", VARIES),
        ("uuid_short", VARIES),
        ("uuid_v4", VARIES.union(ONE)),
        ("uuid_v7", VARIES.union(ONE)),
        ("var_pop", AGGREGATE.union(CLOSE)),
        ("var_samp", AGGREGATE.union(CLOSE)),
        ("variance", AGGREGATE.union(CLOSE)),
        ("version", QUIET),
        ("week", PURE.union(WHOLE)),
        ("weekday", PURE),
        ("weekofyear", PURE),
        ("weight_string", PURE),
        ("year", PURE.union(WHOLE)),
        ("yearweek", PURE),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_found_in_any_case() {
        let names = FUNCTIONS.iter().map(|(name, _)| name);
        assert!(names.is_sorted_by(|one, next| one < next));
        for (name, traits) in FUNCTIONS {
            assert_eq!(traits_of(&name.to_uppercase()), *traits, "{name}");
        }
        assert_eq!(traits_of("mine"), FunctionTraits::empty());
        assert_eq!(traits_of(""), FunctionTraits::empty());
    }

    #[test]
    fn only_the_servers_own_calls_are_quiet() {
        for name in ["concat", "NOW", "count", "user", "sleep", "version"] {
            assert!(is_quiet(name, false), "{name}");
        }
        // A stored function `count` is called by `count (1)`, one named `median` on MySQL by its bare name.
        assert!(!is_quiet("count", true) && is_quiet("concat", true));
        for name in ["median", "nextval", "get_lock", "rand", "mine"] {
            assert!(!is_quiet(name, false), "{name}");
        }
    }

    #[test]
    fn no_function_is_of_two_kinds() {
        let kinds = [
            FunctionTraits::PURE,
            FunctionTraits::CLOCK,
            FunctionTraits::AGGREGATE,
            FunctionTraits::VARIES,
            FunctionTraits::SCHEMA,
            FunctionTraits::QUIET,
        ];
        for (name, traits) in FUNCTIONS {
            let of = kinds.iter().filter(|kind| traits.contains(**kind));
            assert!(of.count() <= 1, "{name}: {traits:?}");
        }
    }
}
