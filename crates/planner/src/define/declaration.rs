//! The comment of a CREATE TABLE that declares what the table is: `/*heddle shard_map=… shard_key=…*/` or
//! `/*heddle global_map=…*/`. What it declares by mistake is an error: a table that is not on its map would be one
//! like any other, without a word.

const DECLARES: &str = "a comment that declares a table is /*heddle shard_map=MAP shard_key=COLUMN*/ or \
                        /*heddle global_map=MAP*/";

/// Reads what lies between two tokens: a map, and the shard key of a sharded table. `None` when it has no comment of
/// ours about maps.
pub(super) fn read(between: &[u8]) -> Option<Result<(String, Option<String>), String>> {
    let text = String::from_utf8_lossy(between);
    let (mut map, mut key, mut global) = (None, None, None);
    for comment in text.split("/*").skip(1) {
        let body = comment.split("*/").next().unwrap_or_default().trim();
        let mut words = body.split(|c: char| c.is_whitespace() || c == ',');
        if !words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("heddle"))
        {
            continue;
        }
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let value = value.trim_matches(['\'', '"', '`']).to_owned();
            match name.to_ascii_lowercase().as_str() {
                "shard_map" => map = Some(value),
                "shard_key" => key = Some(value),
                "global_map" => global = Some(value),
                known if sqltext::HINT_KEYS.contains(&known) => {}
                _ => {
                    return Some(Err(format!(
                        "a comment of Heddle's own has no {name}; {DECLARES}"
                    )));
                }
            }
        }
    }
    match (map, key, global) {
        (None, None, None) => None,
        (Some(map), Some(key), None) => Some(Ok((map, Some(key)))),
        (None, None, Some(map)) => Some(Ok((map, None))),
        _ => Some(Err(DECLARES.to_owned())),
    }
}
