//! Functions by name: those whose value depends on their arguments only, and those that do not
//! travel.

/// The value depends on the arguments and the session's settings only.
pub(crate) fn is_pure(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PURE.binary_search(&name.as_str()).is_ok()
}

/// It tells the time, which is equal where `timestamp` is.
pub(crate) fn is_clock(name: &str) -> bool {
    is_among(&CLOCK, name)
}

/// It gives another value with every call, or on every connection or server.
pub(crate) fn varies(name: &str) -> bool {
    is_among(&VARYING, name)
}

/// It puts rows together.
pub(crate) fn is_aggregate(name: &str) -> bool {
    is_among(&AGGREGATES, name)
}

/// It is the servers' own only where its parenthesis follows at once.
pub(crate) fn stands_close(name: &str) -> bool {
    is_among(&CLOSE, name)
}

/// It tells of the session or of its connection: another server would tell something else.
pub(crate) fn is_of_session(name: &str) -> bool {
    is_among(&TELLS, name) || is_among(&ACTS, name)
}

/// It is the servers' own, as far as it is known here, and no sequence is asked.
pub(crate) fn is_built_in(name: &str) -> bool {
    let sequence = is_among(&["nextval", "lastval", "setval"], name);
    let known = is_pure(name) || is_clock(name) || varies(name) || is_aggregate(name);
    !sequence && (known || is_of_session(name) || is_known_to_session(name))
}

/// The session can be asked for it: without arguments it gives the same all over a statement.
pub(crate) fn is_known_to_session(name: &str) -> bool {
    is_among(&TELLS, name) || is_among(&DATABASE, name)
}

fn is_among(names: &[&str], name: &str) -> bool {
    names.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// It is called without parentheses, too.
pub(crate) fn is_bare(name: &str) -> bool {
    name.eq_ignore_ascii_case("current_user") || name.eq_ignore_ascii_case("current_role")
}

/// Has an exact number as its value, whatever its arguments are.
pub(crate) fn is_whole(name: &str) -> bool {
    is_among(&WHOLE, name)
}

const AGGREGATES: [&str; 22] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "group_concat",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "var_pop",
    "var_samp",
    "bit_and",
    "bit_or",
    "bit_xor",
    "json_arrayagg",
    "json_objectagg",
    "any_value",
    "grouping",
    "median",
    "percentile_cont",
];

/// Of both engines, as their manuals list them («Function Name Parsing and Resolution»), with the
/// aggregates and windows that are parsed alike.
const CLOSE: [&str; 48] = [
    "adddate",
    "bit_and",
    "bit_or",
    "bit_xor",
    "cast",
    "count",
    "cume_dist",
    "curdate",
    "curtime",
    "date_add",
    "date_format",
    "date_sub",
    "decode",
    "dense_rank",
    "extract",
    "first_value",
    "group_concat",
    "json_arrayagg",
    "json_objectagg",
    "lag",
    "last_value",
    "lead",
    "max",
    "median",
    "mid",
    "min",
    "now",
    "nth_value",
    "ntile",
    "percent_rank",
    "position",
    "rank",
    "row_number",
    "session_user",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "subdate",
    "substr",
    "substring",
    "sum",
    "sysdate",
    "system_user",
    "trim",
    "var_pop",
    "var_samp",
    "variance",
];

const CLOCK: [&str; 12] = [
    "now",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "curdate",
    "current_date",
    "curtime",
    "current_time",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "unix_timestamp",
];

const VARYING: [&str; 19] = [
    "rand",
    "uuid",
    "uuid_short",
    "uuid_v4",
    "uuid_v7",
    "sys_guid",
    "random_bytes",
    "sysdate",
    "connection_id",
    "row_count",
    "found_rows",
    "get_lock",
    "release_lock",
    "release_all_locks",
    "is_free_lock",
    "is_used_lock",
    "load_file",
    "nextval",
    "lastval",
];

/// They tell of the session.
const TELLS: [&str; 9] = [
    "row_count",
    "found_rows",
    "last_insert_id",
    "connection_id",
    "user",
    "current_user",
    "session_user",
    "system_user",
    "current_role",
];

/// They tell of the session what could be made equal on another server.
const DATABASE: [&str; 2] = ["database", "schema"];

/// They do something on the session's connection, or look at its server.
const ACTS: [&str; 10] = [
    "get_lock",
    "release_lock",
    "release_all_locks",
    "is_free_lock",
    "is_used_lock",
    "nextval",
    "lastval",
    "setval",
    "load_file",
    "master_pos_wait",
];

const WHOLE: [&str; 27] = [
    "ascii",
    "bit_length",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "count",
    "datediff",
    "day",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "dense_rank",
    "field",
    "hour",
    "instr",
    "length",
    "locate",
    "minute",
    "month",
    "quarter",
    "rank",
    "row_number",
    "second",
    "sign",
    "week",
    "year",
];

/// In order.
const PURE: [&str; 188] = [
    "abs",
    "acos",
    "adddate",
    "addtime",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "bin",
    "bit_count",
    "bit_length",
    "cast",
    "ceil",
    "ceiling",
    "char",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat",
    "concat_ws",
    "conv",
    "convert",
    "convert_tz",
    "cos",
    "cot",
    "crc32",
    "cume_dist",
    "date",
    "date_add",
    "date_format",
    "date_sub",
    "datediff",
    "day",
    "dayname",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "degrees",
    "dense_rank",
    "elt",
    "exp",
    "export_set",
    "extract",
    "extractvalue",
    "field",
    "find_in_set",
    "first_value",
    "floor",
    "format",
    "from_base64",
    "from_days",
    "from_unixtime",
    "get_format",
    "greatest",
    "hex",
    "hour",
    "if",
    "ifnull",
    "inet6_aton",
    "inet6_ntoa",
    "inet_aton",
    "inet_ntoa",
    "insert",
    "instr",
    "interval",
    "isnull",
    "json_array",
    "json_array_append",
    "json_array_insert",
    "json_contains",
    "json_contains_path",
    "json_depth",
    "json_exists",
    "json_extract",
    "json_insert",
    "json_keys",
    "json_length",
    "json_merge",
    "json_merge_patch",
    "json_merge_preserve",
    "json_object",
    "json_overlaps",
    "json_pretty",
    "json_query",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_search",
    "json_set",
    "json_type",
    "json_unquote",
    "json_valid",
    "json_value",
    "lag",
    "last_day",
    "last_value",
    "lcase",
    "lead",
    "least",
    "left",
    "length",
    "ln",
    "locate",
    "log",
    "log10",
    "log2",
    "lower",
    "lpad",
    "ltrim",
    "make_set",
    "makedate",
    "maketime",
    "md5",
    "microsecond",
    "mid",
    "minute",
    "mod",
    "month",
    "monthname",
    "nth_value",
    "ntile",
    "nullif",
    "oct",
    "octet_length",
    "ord",
    "percent_rank",
    "period_add",
    "period_diff",
    "pi",
    "position",
    "pow",
    "power",
    "quarter",
    "quote",
    "radians",
    "rank",
    "regexp_instr",
    "regexp_like",
    "regexp_replace",
    "regexp_substr",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "row_number",
    "rpad",
    "rtrim",
    "sec_to_time",
    "second",
    "sha",
    "sha1",
    "sha2",
    "sign",
    "sin",
    "soundex",
    "space",
    "sqrt",
    "str_to_date",
    "strcmp",
    "subdate",
    "substr",
    "substring",
    "substring_index",
    "subtime",
    "tan",
    "time",
    "time_format",
    "time_to_sec",
    "timediff",
    "timestamp",
    "timestampadd",
    "timestampdiff",
    "to_base64",
    "to_days",
    "to_seconds",
    "trim",
    "truncate",
    "ucase",
    "unhex",
    "upper",
    "week",
    "weekday",
    "weekofyear",
    "weight_string",
    "year",
    "yearweek",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(PURE.windows(2).all(|two| two[0] < two[1]));
        assert!(is_pure("CONCAT") && is_pure("Mod") && !is_pure("rand") && !is_pure("mine"));
    }
}
