//! The classic commands, one function per shape of line.

use crate::line::Words;
use crate::number::{read_number, read_signed};
use crate::parse::{BAD_LINE, Fault, Head, is_quiet};
use crate::request::{Count, Get, Key, Request, Store, StoreMode};

/// The longest value that a line may announce; memcached calls more a bad line and swallows nothing.
const VALUE_LENGTH_MAX: u64 = i32::MAX as u64 - 2;

const BAD_EXPIRY: &str = "CLIENT_ERROR invalid exptime argument";
const BAD_DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const NO_SHUTDOWN: &str = "SERVER_ERROR: shutdown not enabled";
const NO_WATCH: &str = "CLIENT_ERROR watch commands not allowed";
const NO_SLABS: &str = "CLIENT_ERROR slab reassignment disabled";
const NO_CRAWLER: &str = "CLIENT_ERROR lru crawler disabled";

type Outcome<'a> = Result<Head<'a>, Fault>;

/// Reads a line of at least two bytes.
pub(crate) fn parse(line: &[u8]) -> Outcome<'_> {
    let mut words = Words::new(line);
    // A blank in front is not skipped: memcached takes the command up to the first blank.
    let Some(command) = words.next().filter(|_| line[0] != b' ') else {
        return Err(unknown(Words::new(line)));
    };
    match command {
        b"get" => get(words, false),
        b"gets" => get(words, true),
        b"gat" => get_and_touch(words, false),
        b"gats" => get_and_touch(words, true),
        b"set" => store(words, StoreMode::Set),
        b"add" => store(words, StoreMode::Add),
        b"replace" => store(words, StoreMode::Replace),
        b"append" => store(words, StoreMode::Append),
        b"prepend" => store(words, StoreMode::Prepend),
        b"cas" => store(words, StoreMode::Cas(0)),
        b"incr" => count(words, false),
        b"decr" => count(words, true),
        b"delete" => delete(words),
        b"touch" => touch(words),
        b"flush_all" => flush_all(words),
        b"verbosity" => verbosity(words),
        b"stats" => Ok(Head::Whole(Request::Stats(words))),
        b"version" => Ok(Head::Whole(Request::Version)),
        b"quit" => Ok(Head::Whole(Request::Quit)),
        b"shutdown" => Err(Fault::new(NO_SHUTDOWN)),
        b"watch" => Err(Fault::new(NO_WATCH)),
        b"lru_crawler" => Err(Fault::new(NO_CRAWLER)),
        b"slabs" => slabs(words),
        _ => Err(unknown(Words::new(line))),
    }
}

fn unknown(line: Words<'_>) -> Fault {
    // A browser or a health check that speaks HTTP.
    let is_http = line
        .last_of()
        .is_some_and(|word| word.starts_with(b"HTTP/"));
    Fault {
        quiet: is_quiet(&line),
        hangup: is_http,
        ..Fault::new("ERROR")
    }
}

/// There are none.
fn slabs(mut words: Words<'_>) -> Outcome<'_> {
    let line = words;
    Err(match (words.next(), words.next()) {
        (Some(b"reassign"), _) => Fault::new(NO_SLABS),
        (Some(b"automove"), Some(number)) if read_number(number).is_some() => Fault::new(NO_SLABS),
        (Some(b"automove"), _) => bad(false),
        _ => unknown(line),
    })
}

fn bad(quiet: bool) -> Fault {
    Fault {
        quiet,
        ..Fault::new(BAD_LINE)
    }
}

fn get(words: Words<'_>, with_cas: bool) -> Outcome<'_> {
    keys(words, with_cas, None)
}

fn get_and_touch(mut words: Words<'_>, with_cas: bool) -> Outcome<'_> {
    let expiry = words.next().ok_or(bad(false))?;
    if words.clone().next().is_none() {
        return Err(bad(false));
    }
    let expiry = read_signed(expiry).ok_or(Fault::new(BAD_EXPIRY))?;
    keys(words, with_cas, Some(expiry))
}

/// One bad key is an answer to all of them.
fn keys(words: Words<'_>, with_cas: bool, touch: Option<i64>) -> Outcome<'_> {
    let mut each = words;
    let first = each.next().and_then(Key::plain);
    if first.is_none() || !each.all(|word| Key::plain(word).is_some()) {
        return Err(bad(false));
    }
    Ok(Head::Whole(Request::Get(Get {
        keys: words,
        with_cas,
        touch,
    })))
}

fn store(mut words: Words<'_>, mode: StoreMode) -> Outcome<'_> {
    let quiet = is_quiet(&words);
    let mut next = || words.next().ok_or(bad(false));
    let (key, flags, expiry, length) = (next()?, next()?, next()?, next()?);
    let length = read_number(length)
        .filter(|length| *length <= VALUE_LENGTH_MAX)
        .ok_or(bad(false))? as usize;
    // From here on it is known how long the value is, so it can be skipped.
    let wrong = Fault {
        value: Some(length),
        ..bad(quiet)
    };
    let key = Key::plain(key).ok_or(wrong)?;
    let flags = read_number(flags).and_then(|flags| flags.try_into().ok());
    let mode = match mode {
        StoreMode::Cas(_) => StoreMode::Cas(words.next().and_then(read_number).ok_or(wrong)?),
        mode => mode,
    };
    let store = Store {
        mode,
        key,
        flags: flags.ok_or(wrong)?,
        expiry: read_signed(expiry).ok_or(wrong)?,
        value: b"",
        quiet,
    };
    Ok(Head::Value {
        request: Request::Store(store),
        length,
        quiet,
    })
}

/// A key and the word behind it.
fn key_and_word<'a>(words: &mut Words<'a>) -> Result<(Key<'a>, &'a [u8], bool), Fault> {
    let quiet = is_quiet(words);
    let key = words.next().ok_or(bad(false))?;
    let word = words.next().ok_or(bad(false))?;
    Ok((Key::plain(key).ok_or(bad(quiet))?, word, quiet))
}

fn count(mut words: Words<'_>, down: bool) -> Outcome<'_> {
    let (key, by, quiet) = key_and_word(&mut words)?;
    let by = read_number(by).ok_or(Fault {
        quiet,
        ..Fault::new(BAD_DELTA)
    })?;
    let count = Count {
        key,
        by,
        down,
        quiet,
    };
    Ok(Head::Whole(Request::Count(count)))
}

fn touch(mut words: Words<'_>) -> Outcome<'_> {
    let (key, expiry, quiet) = key_and_word(&mut words)?;
    let expiry = read_signed(expiry).ok_or(Fault {
        quiet,
        ..Fault::new(BAD_EXPIRY)
    })?;
    Ok(Head::Whole(Request::Touch { key, expiry, quiet }))
}

/// Old clients send a time of 0 behind the key. Whoever sends more keys would think them deleted.
fn delete(mut words: Words<'_>) -> Outcome<'_> {
    let quiet = is_quiet(&words);
    let key = words.next().ok_or(bad(false))?;
    let key = Key::plain(key).ok_or(bad(quiet))?;
    let rest = [words.next(), words.next(), words.next()];
    if !matches!(
        rest,
        [None, ..] | [Some(b"0" | b"noreply"), None, _] | [Some(b"0"), Some(b"noreply"), None]
    ) {
        return Err(Fault {
            quiet,
            ..Fault::new(BAD_DELETE)
        });
    }
    Ok(Head::Whole(Request::Delete { key, quiet }))
}

fn flush_all(mut words: Words<'_>) -> Outcome<'_> {
    let quiet = is_quiet(&words);
    let delay = match words.next() {
        None | Some(b"noreply") => 0,
        Some(word) => read_signed(word).ok_or(Fault {
            quiet,
            ..Fault::new(BAD_EXPIRY)
        })?,
    };
    Ok(Head::Whole(Request::FlushAll { delay, quiet }))
}

fn verbosity(mut words: Words<'_>) -> Outcome<'_> {
    let quiet = is_quiet(&words);
    let level = words.next().and_then(read_number);
    level.ok_or(bad(quiet))?;
    Ok(Head::Whole(Request::Verbosity { quiet }))
}
