//! Where a statement comes from, as its application says in a comment or beside the text: a place in the program, the
//! route of a page, the trace that it belongs to.
//!
//! Four forms are known, in comments before the first word or behind the last one: `/*!99999 main.php:12 */`, which
//! no server executes; `/*key='value',…*/` of sqlcommenter, its values percent-encoded; `/*key:value,…*/` of
//! Marginalia; and among their keys `traceparent`. Every other comment says nothing. What names a single request,
//! and not a place, is left out of the tag: it would make each statement another one.
//!
//! Invariants: any bytes may come in; a tag has at most [`SOURCE_TAG_BYTES_MAX`] bytes and no quotes, backslashes or
//! control characters; once the buffers have grown, reading allocates nothing.

/// A longer tag is cut.
pub const SOURCE_TAG_BYTES_MAX: usize = 128;

/// A longer comment says nothing.
const COMMENT_BYTES_MAX: usize = 1024;

/// So many comments before the first word are looked at.
const COMMENTS_MAX: usize = 8;

/// The version that no server has, so that none executes the comment.
const NO_VERSION: &str = "99999";

/// `00-TRACE-PARENT-FLAGS`, in hexadecimal digits.
const TRACE_FORM: [usize; 4] = [2, 32, 16, 2];

/// Keys whose value is another one with each request, process or connection.
const OF_REQUESTS: [&str; 10] = [
    "tracestate",
    "trace_id",
    "span_id",
    "request_id",
    "pid",
    "thread_id",
    "job_id",
    "socket",
    "time",
    "timestamp",
];

/// With one of these first, a single pair without quotes is more than a remark.
const OF_PLACES: [&str; 13] = [
    "app",
    "application",
    "service",
    "controller",
    "action",
    "route",
    "file",
    "line",
    "source",
    "job",
    "framework",
    "db_driver",
    "traceparent",
];

/// What the comments of a text say. Kept and reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The place in the application; empty where no comment names one.
    pub tag: String,
    /// The `traceparent` of the W3C's trace context; empty where there is none.
    pub trace: String,
}

impl Origin {
    /// Nothing is known.
    pub fn clear(&mut self) {
        self.tag.clear();
        self.trace.clear();
    }

    /// Reads the comments of a text. One without comments at its ends costs a look at its first and last bytes.
    #[inline]
    pub fn read(&mut self, text: &[u8]) {
        self.clear();
        let leads = !text.first().is_some_and(u8::is_ascii_alphabetic);
        let trails = matches!(
            text.last(),
            Some(b'/' | b';' | b' ' | b'\t' | b'\r' | b'\n')
        );
        if leads || trails {
            self.read_comments(text);
        }
    }

    #[cold]
    fn read_comments(&mut self, text: &[u8]) {
        let mut rest = text;
        for _ in 0..COMMENTS_MAX {
            let Some((body, behind)) = leading(rest) else {
                break;
            };
            self.take(body);
            rest = behind;
        }
        if let Some(body) = trailing(rest) {
            self.take(body);
        }
    }

    /// Takes over what attributes beside the text say, names and values, where no comment has said it: a `traceparent`,
    /// and the place by the keys that comments have for one.
    pub fn take_attributes<'a>(
        &mut self,
        attributes: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        let named = !self.tag.is_empty();
        for (key, value) in attributes {
            let (Ok(key), Ok(text)) = (str::from_utf8(key), str::from_utf8(value)) else {
                continue;
            };
            let is = |known: &&str| key.eq_ignore_ascii_case(known);
            if is(&"traceparent") {
                self.take_trace(value);
            } else if !named && OF_PLACES.iter().any(is) {
                if !self.tag.is_empty() {
                    put(&mut self.tag, ",");
                }
                put(&mut self.tag, key);
                put(&mut self.tag, "=");
                put(&mut self.tag, text);
            }
        }
    }

    /// What its client says of itself, where the statement says nothing; see [`program_tag`].
    #[inline]
    pub fn or_of(&mut self, program: Option<&str>) {
        if let Some(program) = program
            && self.tag.is_empty()
        {
            self.tag.push_str(program);
        }
    }

    /// Takes over a `traceparent` that came beside the text, where no comment has one.
    fn take_trace(&mut self, value: &[u8]) {
        if let Ok(value) = str::from_utf8(value)
            && self.trace.is_empty()
            && is_trace(value)
        {
            self.trace.push_str(value);
        }
    }

    /// Takes over what one comment says and none before it has said.
    fn take(&mut self, body: &[u8]) {
        let Ok(body) = std::str::from_utf8(body) else {
            return;
        };
        let place = body
            .strip_prefix('!')
            .map(|rest| rest.strip_prefix(NO_VERSION));
        let (body, is_place) = match place {
            Some(Some(rest)) if rest.starts_with(|c: char| c.is_ascii_whitespace()) => (rest, true),
            // Servers execute it.
            Some(_) => return,
            None => (body, false),
        };
        let body = body.trim();
        if !self.take_pairs(body, is_place) && is_place && self.tag.is_empty() {
            put(&mut self.tag, body);
        }
    }

    /// The same of a comment that is pairs and nothing else, and surely meant for programs; false for every other one.
    fn take_pairs(&mut self, body: &str, sure: bool) -> bool {
        let (tag, trace) = (self.tag.len(), self.trace.len());
        let (mut rest, mut count, mut meant) = (body, 0, sure);
        while !rest.is_empty() {
            let Some((pair, behind)) = next_pair(rest) else {
                count = 0;
                break;
            };
            rest = behind.trim_ascii_start();
            let is = |key: &&str| pair.key.eq_ignore_ascii_case(key);
            meant |= pair.quoted || (count == 0 && OF_PLACES.iter().any(&is));
            count += 1;
            if is(&"traceparent") {
                if self.trace.is_empty() && is_trace(pair.value) {
                    self.trace.push_str(pair.value);
                }
            } else if tag == 0 && !OF_REQUESTS.iter().any(is) {
                if !self.tag.is_empty() {
                    put(&mut self.tag, ",");
                }
                put(&mut self.tag, pair.key);
                put(&mut self.tag, if pair.colon { ":" } else { "=" });
                put_decoded(&mut self.tag, pair.value);
            }
        }
        let says = count > 1 || (count == 1 && meant);
        if !says {
            self.tag.truncate(tag);
            self.trace.truncate(trace);
        }
        says
    }
}

/// The tag of a program that names itself so when it connects; `None` where the name has nothing that a tag may have.
pub fn program_tag(name: &[u8]) -> Option<Box<str>> {
    let mut tag = String::new();
    put(&mut tag, "program_name=");
    let empty = tag.len();
    put(&mut tag, str::from_utf8(name).ok()?.trim());
    (tag.len() > empty).then(|| tag.into())
}

/// The comment at the beginning of a text, and what is behind it.
fn leading(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = text.trim_ascii_start().strip_prefix(b"/*")?;
    let within = &body[..body.len().min(COMMENT_BYTES_MAX)];
    let end = within.windows(2).position(|pair| pair == b"*/")?;
    Some((&body[..end], &body[end + 2..]))
}

/// The comment at the end of a text.
fn trailing(text: &[u8]) -> Option<&[u8]> {
    let mut text = text.trim_ascii_end();
    while let Some(shorter) = text.strip_suffix(b";") {
        text = shorter.trim_ascii_end();
    }
    let body = text.strip_suffix(b"*/")?;
    let within = &body[body.len().saturating_sub(COMMENT_BYTES_MAX)..];
    let begin = within.windows(2).rposition(|pair| pair == b"/*")?;
    Some(&within[begin + 2..])
}

/// One `key=value` or `key:value`.
struct Pair<'a> {
    key: &'a str,
    /// Without its quotes.
    value: &'a str,
    quoted: bool,
    colon: bool,
}

/// The first pair, and what is behind the comma that follows it. `None` where something else stands.
fn next_pair(text: &str) -> Option<(Pair<'_>, &str)> {
    let text = text.trim_ascii_start();
    let at = text.bytes().position(|byte| matches!(byte, b'=' | b':'))?;
    let key = text[..at].trim_ascii_end();
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let begins = key.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    if !begins || !key.bytes().all(is_key) {
        return None;
    }
    let colon = text[at..].starts_with(':');
    let value = &text[at + 1..];
    if let Some(inner) = value.trim_ascii_start().strip_prefix('\'') {
        let end = quote_end(inner)?;
        let behind = inner[end + 1..].trim_ascii_start();
        let behind = match behind.strip_prefix(',') {
            Some(more) => more,
            None if behind.is_empty() => behind,
            None => return None,
        };
        let (value, quoted) = (&inner[..end], true);
        return Some((
            Pair {
                key,
                value,
                quoted,
                colon,
            },
            behind,
        ));
    }
    let (value, behind) = value.split_once(',').unwrap_or((value, ""));
    let value = value.trim();
    let quoted = false;
    let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace());
    plain.then_some((
        Pair {
            key,
            value,
            quoted,
            colon,
        },
        behind,
    ))
}

/// Where the quoted text ends: at the first quote without a backslash.
fn quote_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'\'' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn is_trace(value: &str) -> bool {
    let mut parts = value.split('-');
    let fits = TRACE_FORM.iter().all(|&digits| {
        let hex = |part: &str| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
        parts.next().is_some_and(hex)
    });
    fits && parts.next().is_none()
}

/// True for a character that a tag may have.
fn is_plain(c: char) -> bool {
    !c.is_control() && !matches!(c, '\'' | '"' | '`' | '\\')
}

/// Adds the characters that a tag may have, as long as there is room.
fn put(tag: &mut String, text: &str) {
    // Nearly every text is as it should be.
    let plain = |byte: u8| (b' '..0x7F).contains(&byte) && is_plain(char::from(byte));
    if tag.len() + text.len() <= SOURCE_TAG_BYTES_MAX && text.bytes().all(plain) {
        return tag.push_str(text);
    }
    for c in text.chars().filter(|c| is_plain(*c)) {
        if tag.len() + c.len_utf8() > SOURCE_TAG_BYTES_MAX {
            return;
        }
        tag.push(c);
    }
}

/// The same of a percent-encoded text. What stands for anything but a plain ASCII character stays as it is.
fn put_decoded(tag: &mut String, text: &str) {
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        put(tag, before);
        let digits = behind
            .get(..2)
            .filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte
            .map(char::from)
            .filter(|c| c.is_ascii() && is_plain(*c))
        {
            Some(c) => {
                put(tag, c.encode_utf8(&mut [0; 4]));
                rest = &behind[2..];
            }
            None => {
                put(tag, "%");
                rest = behind;
            }
        }
    }
    put(tag, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(text: &str) -> (String, String) {
        let mut origin = Origin::default();
        origin.read(text.as_bytes());
        (origin.tag, origin.trace)
    }

    fn tag(text: &str) -> String {
        read(text).0
    }

    #[test]
    fn a_place_stands_in_a_comment_that_no_server_executes() {
        assert_eq!(tag("/*!99999 main.php:12 */ SELECT 1"), "main.php:12");
        assert_eq!(tag("SELECT 1 /*!99999 main.php */"), "main.php");
        assert_eq!(tag("SELECT 1 /*!99999 it's \"here\" */ ;\n"), "its here");
        assert_eq!(tag("/*!40001 SQL_NO_CACHE */ SELECT 1"), "");
        assert_eq!(tag("/*!999990 main.php */ SELECT 1"), "");
    }

    #[test]
    fn pairs_of_sqlcommenter_are_decoded() {
        let text = "SELECT 1 /*action='%2Fparam*d',controller='index,b',framework='spring',\
                    traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',\
                    tracestate='congo%3Dt61rcWkgMzE'*/";
        let (tag, trace) = read(text);
        assert_eq!(tag, "action=/param*d,controller=index,b,framework=spring");
        assert_eq!(trace, TRACE);
        assert_eq!(self::tag("SELECT 1 /*a='x%27y\\'z%'*/"), "a=x%27yz%");
    }

    #[test]
    fn pairs_of_marginalia_are_taken_as_they_are() {
        let text = "SELECT 1 /* app:web, controller:users, pid:77, line:/app/a.rb:12:in `b' */";
        assert_eq!(tag(text), "", "a value with blanks is prose");
        let text = "SELECT 1 /*app:web,controller:users,pid:77,line:/app/a.rb:12*/;";
        assert_eq!(tag(text), "app:web,controller:users,line:/app/a.rb:12");
        assert_eq!(tag("/* app:web */ SELECT 1"), "app:web");
    }

    #[test]
    fn what_names_a_request_is_no_tag() {
        let text = format!("/*traceparent='{TRACE}'*/ SELECT 1 /*route='/a'*/");
        assert_eq!(read(&text), ("route=/a".to_owned(), TRACE.to_owned()));
        let odd = "/*traceparent='00-zz'*/ SELECT 1";
        assert_eq!(read(odd), (String::new(), String::new()));
        assert_eq!(tag("/*request_id='a',pid='1'*/ SELECT 1"), "");
    }

    #[test]
    fn a_trace_beside_the_text_counts_where_no_comment_has_one() {
        let other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut origin = Origin::default();
        origin.take_trace(b"nonsense");
        assert_eq!(origin.trace, "");
        origin.take_trace(other.as_bytes());
        assert_eq!(origin.trace, other);
        origin.read(format!("SELECT 1 /*traceparent='{TRACE}'*/").as_bytes());
        origin.take_trace(other.as_bytes());
        assert_eq!(origin.trace, TRACE);
    }

    #[test]
    fn other_comments_say_nothing() {
        for text in [
            "SELECT 1",
            "SELECT 1 /* the users */",
            "/* note: mind the order */ SELECT 1",
            "/* TODO:later */ SELECT 1",
            "/*ms=master*/ SELECT 1",
            "/*heddle consistency=strong max_lag_ms=50*/ SELECT 1",
            "/*+ MAX_EXECUTION_TIME(1000) */ SELECT 1",
            "SELECT 'a' -- app:web,b:c",
            "/*",
            "/*/",
            "*/",
            "/* a",
            "",
        ] {
            assert_eq!(tag(text), "", "{text}");
        }
    }

    #[test]
    fn tags_are_bounded_and_what_came_first_counts() {
        let long = "ä".repeat(100);
        let text = format!("/*!99999 {long} */ SELECT 1");
        assert_eq!(tag(&text), "ä".repeat(64));
        let text = format!("/*!99999 {} */ SELECT 1", "x".repeat(COMMENT_BYTES_MAX));
        assert_eq!(tag(&text), "");
        assert_eq!(tag("/*route='a'*/ SELECT 1 /*route='b'*/"), "route=a");
    }

    #[test]
    fn attributes_beside_the_text_count_where_no_comment_says_anything() {
        let take = |text: &str, attributes: &[(&str, &str)]| {
            let mut origin = Origin::default();
            origin.read(text.as_bytes());
            let pairs = attributes.iter();
            origin.take_attributes(pairs.map(|(key, value)| (key.as_bytes(), value.as_bytes())));
            origin.or_of(program_tag(b"cron").as_deref());
            (origin.tag, origin.trace)
        };
        let attributes = [
            ("Route", "/a'"),
            ("batch", "7"),
            ("action", "x"),
            ("traceparent", TRACE),
        ];
        assert_eq!(
            take("SELECT 1", &attributes),
            ("Route=/a,action=x".to_owned(), TRACE.to_owned())
        );
        assert_eq!(take("SELECT 1 /*app:web*/", &attributes).0, "app:web");
        assert_eq!(take("SELECT 1", &[("batch", "7")]).0, "program_name=cron");
        assert_eq!(program_tag(b" '' "), None);
        assert_eq!(program_tag(b"\xFF"), None);
    }
}
