//! The meta commands: their lines, and the lines that answer them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::line::Words;
use crate::number::{push_number, read_number, read_signed};
use crate::parse::{BAD_LINE, Fault, Head};
use crate::request::{KEY_BYTES_MAX, Key, Meta, Request, StoreMode};

/// The most words that a meta command may have.
const WORDS_MAX: usize = 20;
/// The longest opaque flag, its letter counted.
const OPAQUE_BYTES_MAX: usize = 32;
/// The longest value that a line may announce.
const VALUE_LENGTH_MAX: u64 = i32::MAX as u64 - 2;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_KEY: &str = "CLIENT_ERROR error decoding key";
const BAD_COUNT_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";
const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";

type Outcome<'a> = Result<Head<'a>, Fault>;

/// Reads a line that begins with `m` and is a word of two letters, or continues after one.
pub(crate) fn parse(line: &[u8]) -> Outcome<'_> {
    let words = Words::new(&line[2..]);
    match line[1] {
        b'g' => Ok(Head::Whole(Request::MetaGet(flags(words)?))),
        b's' => store(words),
        b'd' => Ok(Head::Whole(Request::MetaDelete(flags(words)?))),
        b'a' => count(words),
        b'n' => Ok(Head::Whole(Request::MetaNoop)),
        b'e' => dump(words),
        _ => crate::text::parse(line),
    }
}

fn store(mut words: Words<'_>) -> Outcome<'_> {
    let bad = Fault::new(BAD_LINE);
    let key = words.next().ok_or(bad)?;
    let length = words
        .next()
        .and_then(read_number)
        .filter(|length| *length <= VALUE_LENGTH_MAX)
        .ok_or(bad)? as usize;
    let swallow = |fault: Fault| Fault {
        value: Some(length),
        ..fault
    };
    let meta = read(key, words, 3).map_err(swallow)?;
    let mode = match meta.mode {
        None | Some(b'S') => StoreMode::Set,
        Some(b'E') => StoreMode::Add,
        Some(b'A') => StoreMode::Append,
        Some(b'P') => StoreMode::Prepend,
        Some(b'R') => StoreMode::Replace,
        Some(_) => {
            let fault = Fault::new("CLIENT_ERROR invalid mode for ms M token");
            return Err(swallow(fault));
        }
    };
    let mode = match (mode, meta.compare) {
        (StoreMode::Set | StoreMode::Replace, Some(cas)) => StoreMode::Cas(cas),
        (mode, _) => mode,
    };
    let request = Request::MetaStore {
        meta,
        mode,
        value: b"",
    };
    // Errors are never quiet.
    Ok(Head::Value {
        request,
        length,
        quiet: false,
    })
}

fn count(words: Words<'_>) -> Outcome<'_> {
    let meta = flags(words).map_err(|fault| match fault.reply {
        // memcached says so whatever is wrong with the flags.
        BAD_LINE | LONG_OPAQUE => fault,
        _ => Fault::new(BAD_COUNT_FLAG),
    })?;
    let down = match meta.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return Err(Fault::new("CLIENT_ERROR invalid mode for ma M token")),
    };
    Ok(Head::Whole(Request::MetaCount { meta, down }))
}

fn dump(mut words: Words<'_>) -> Outcome<'_> {
    let word = words.next().ok_or(Fault::new(BAD_LINE))?;
    let base64 = words.next() == Some(b"b");
    let key = key(word, base64).map_err(|_| Fault::new(BAD_LINE))?;
    Ok(Head::Whole(Request::MetaDebug(key)))
}

/// A key and flags.
fn flags(mut words: Words<'_>) -> Result<Meta<'_>, Fault> {
    let key = words.next().ok_or(Fault::new(BAD_LINE))?;
    read(key, words, 2)
}

fn key(word: &[u8], base64: bool) -> Result<Key<'_>, Fault> {
    if !base64 {
        return Key::plain(word).ok_or(Fault::new(BAD_LINE));
    }
    let mut scratch = [0; KEY_BYTES_MAX];
    let decoded = BASE64.decode_slice(word, &mut scratch);
    decoded
        .ok()
        .filter(|length| *length > 0)
        .ok_or(Fault::new(BAD_KEY))?;
    Ok(Key { word, base64 })
}

/// `before` words stand in front of the flags.
fn read<'a>(word: &'a [u8], words: Words<'a>, before: usize) -> Result<Meta<'a>, Fault> {
    if word.len() > KEY_BYTES_MAX {
        return Err(Fault::new(BAD_LINE));
    }
    let mut meta = Meta {
        key: Key {
            word,
            base64: false,
        },
        flags: words,
        quiet: false,
        with_value: false,
        with_cas: false,
        with_history: false,
        expiry: None,
        vivify: None,
        recache: None,
        compare: None,
        cas: None,
        client_flags: None,
        token: None,
        invalidate: false,
        without_value: false,
        mode: None,
        initial: 0,
        delta: 1,
    };
    let mut seen = 0_u128;
    let mut fault = None;
    for (index, flag) in words.enumerate() {
        let letter = flag[0];
        if !letter.is_ascii_alphanumeric() {
            return Err(Fault::new(BAD_LINE));
        }
        if index + before >= WORDS_MAX {
            return Err(Fault::new("CLIENT_ERROR options flags are too long"));
        }
        if seen & 1 << letter != 0 {
            return Err(Fault::new("CLIENT_ERROR duplicate flag"));
        }
        seen |= 1 << letter;
        // memcached reads on after a bad token and reports the last one.
        if let Err(reply) = one(&mut meta, letter, &flag[1..])? {
            fault = Some(Fault::new(reply));
        }
    }
    fault.map_or(Ok(()), Err)?;
    meta.key = key(word, meta.key.base64)?;
    Ok(meta)
}

/// Takes up one flag. The outer error ends the line, the inner one is reported at its end.
fn one<'a>(
    meta: &mut Meta<'a>,
    letter: u8,
    token: &'a [u8],
) -> Result<Result<(), &'static str>, Fault> {
    let unsigned = || read_number(token).ok_or(BAD_TOKEN);
    let signed = || read_signed(token).ok_or(BAD_TOKEN);
    // Sets what a token says, or passes on that it says nothing.
    fn put<T>(place: &mut Option<T>, value: Result<T, &'static str>) -> Result<(), &'static str> {
        *place = Some(value?);
        Ok(())
    }
    Ok(match letter {
        b'T' => put(&mut meta.expiry, signed()),
        b'N' => put(&mut meta.vivify, signed()),
        b'R' => put(&mut meta.recache, signed()),
        b'C' => put(&mut meta.compare, unsigned()),
        b'E' => put(&mut meta.cas, unsigned()),
        b'F' => {
            let flags = read_number(token).and_then(|flags| flags.try_into().ok());
            put(&mut meta.client_flags, flags.ok_or(BAD_LINE))
        }
        // No mode is none that a command knows.
        b'M' => put(&mut meta.mode, Ok(token.first().copied().unwrap_or(0))),
        b'J' => read_number(token)
            .map(|initial| meta.initial = initial)
            .ok_or("CLIENT_ERROR invalid numeric initial value"),
        b'D' => read_number(token)
            .map(|delta| meta.delta = delta)
            .ok_or("CLIENT_ERROR invalid numeric delta value"),
        b'O' if token.len() >= OPAQUE_BYTES_MAX => Err(LONG_OPAQUE),
        other => {
            match other {
                b'b' => meta.key.base64 = true,
                b'q' => meta.quiet = true,
                b'v' => meta.with_value = true,
                b'c' => meta.with_cas = true,
                b'h' | b'l' => meta.with_history = true,
                b'G' => meta.token = Some(token),
                b'I' => meta.invalidate = true,
                b'x' => meta.without_value = true,
                // For proxies, or known and without effect here.
                b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'f' | b'u' => {}
                _ => return Err(Fault::new("CLIENT_ERROR invalid flag")),
            }
            Ok(())
        }
    })
}

/// How a reply begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done, or found without its value.
    Hd,
    /// Not there, to `mg`.
    En,
    /// Not there.
    Nf,
    /// Not stored.
    Ns,
    /// The number was another.
    Ex,
}

impl Code {
    fn bytes(self) -> &'static [u8] {
        match self {
            Code::Hd => b"HD",
            Code::En => b"EN",
            Code::Nf => b"NF",
            Code::Ns => b"NS",
            Code::Ex => b"EX",
        }
    }
}

/// What a reply can say of an item when its flag is asked for; what is `None` is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// `s`, in bytes.
    pub size: Option<usize>,
    /// `f`.
    pub client_flags: Option<u32>,
    /// `c`.
    pub cas: Option<u64>,
    /// `t`, in seconds; negative: never.
    pub ttl_s: Option<i64>,
    /// `h`.
    pub hit_before: Option<bool>,
    /// `l`, in seconds.
    pub idle_s: Option<u64>,
    /// `W`: the client is the one to make the item anew.
    pub won: bool,
    /// `X`.
    pub stale: bool,
    /// `Z`: another client makes it anew.
    pub being_made: bool,
    /// `G`.
    pub token: Option<&'a str>,
}

/// What a reply repeats of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// As the client wrote it.
    pub key: &'a [u8],
    pub base64: bool,
    pub flags: Words<'a>,
}

impl<'a> From<&Meta<'a>> for Asked<'a> {
    fn from(meta: &Meta<'a>) -> Asked<'a> {
        Asked {
            key: meta.key.word,
            base64: meta.key.base64,
            flags: meta.flags,
        }
    }
}

/// A line without a value: `HD`, `EN`, `NF`, `NS`, `EX` and the flags that were asked for.
pub fn line(out: &mut Vec<u8>, code: Code, asked: &Asked<'_>, facts: &Facts<'_>) {
    out.extend_from_slice(code.bytes());
    echo(out, asked, facts);
    out.extend_from_slice(b"\r\n");
}

/// `VA`, the flags that were asked for, and the value.
pub fn value(out: &mut Vec<u8>, value: &[u8], asked: &Asked<'_>, facts: &Facts<'_>) {
    out.extend_from_slice(b"VA ");
    push_number(out, value.len() as u64);
    echo(out, asked, facts);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The reply to `me`.
pub fn debug(out: &mut Vec<u8>, key: &[u8], ttl_s: i64, cas: u64, size: usize) {
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" exp=");
    push_seconds(out, ttl_s);
    out.extend_from_slice(b" la=0 cas=");
    push_number(out, cas);
    out.extend_from_slice(b" fetch=no cls=1 size=");
    push_number(out, size as u64);
    out.extend_from_slice(b"\r\n");
}

fn push_seconds(out: &mut Vec<u8>, seconds: i64) {
    match u64::try_from(seconds) {
        Ok(seconds) => push_number(out, seconds),
        Err(_) => out.extend_from_slice(b"-1"),
    }
}

fn echo(out: &mut Vec<u8>, asked: &Asked<'_>, facts: &Facts<'_>) {
    for flag in asked.flags {
        let number = match flag[0] {
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(flag);
                continue;
            }
            b'k' => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(asked.key);
                if asked.base64 {
                    out.extend_from_slice(b" b");
                }
                continue;
            }
            b'G' => {
                if let Some(token) = facts.token {
                    out.extend_from_slice(b" G");
                    out.extend_from_slice(token.as_bytes());
                }
                continue;
            }
            b't' => {
                if let Some(seconds) = facts.ttl_s {
                    out.extend_from_slice(b" t");
                    push_seconds(out, seconds);
                }
                continue;
            }
            b's' => facts.size.map(|size| size as u64),
            b'f' => facts.client_flags.map(u64::from),
            b'c' => facts.cas,
            b'h' => facts.hit_before.map(u64::from),
            b'l' => facts.idle_s,
            _ => None,
        };
        if let Some(number) = number {
            out.extend_from_slice(&[b' ', flag[0]]);
            push_number(out, number);
        }
    }
    for (holds, letter) in [
        (facts.being_made, b'Z'),
        (facts.stale, b'X'),
        (facts.won, b'W'),
    ] {
        if holds {
            out.extend_from_slice(&[b' ', letter]);
        }
    }
}
