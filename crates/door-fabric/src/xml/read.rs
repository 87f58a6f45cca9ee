//! A call, read from XML that anybody may have sent.
//!
//! A pull parser under a reader of one grammar: elements that XML-RPC does not have, document types and
//! entities of their own are refused where they stand. Text is UTF-8, or ISO-8859-1 where its first line says
//! so.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::value::Value;

/// A longer call is refused.
pub const BYTES_MAX: usize = 1 << 20;

/// Arrays and structs in each other.
const DEPTH_MAX: usize = 16;

/// Values of one call, inner ones included.
const VALUES_MAX: usize = 4096;

/// The first line of a document, which may name its encoding, ends by then.
const PROLOG_BYTES_MAX: usize = 200;

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub method: String,
    pub params: Vec<Value>,
    /// Its first line says ISO-8859-1, as PHP's `xmlrpc_encode_request` and mysqlnd_ms write.
    pub is_latin: bool,
}

/// Why something is no call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no XML-RPC at byte {at}: {what}")]
pub struct Unreadable {
    pub at: usize,
    pub what: String,
}

/// Reads a call.
///
/// # Errors
/// It is no well-formed XML, none that XML-RPC knows, or too long or deep.
pub fn read(bytes: &[u8]) -> Result<Call, Unreadable> {
    if bytes.len() > BYTES_MAX {
        return Err(refused(format!("a call has {BYTES_MAX} bytes at most")));
    }
    let (text, is_latin) = decoded(bytes).map_err(refused)?;
    let mut document = Document::new(&text, VALUES_MAX);
    let (method, params) = document.call()?;
    Ok(Call {
        method,
        params,
        is_latin,
    })
}

/// Reads the answer of a router that is trusted: its value, or the text of a fault. It may be long, not deep.
///
/// # Errors
/// It is no answer of XML-RPC.
pub fn read_answer(bytes: &[u8]) -> Result<Result<Value, String>, Unreadable> {
    let (text, _) = decoded(bytes).map_err(refused)?;
    Document::new(&text, usize::MAX).answer()
}

fn refused(what: String) -> Unreadable {
    Unreadable { at: 0, what }
}

/// The text, and whether its first line says that it is ISO-8859-1.
fn decoded(bytes: &[u8]) -> Result<(Cow<'_, str>, bool), String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let encoding = encoding(bytes);
    match encoding.as_deref() {
        Some("iso-8859-1" | "latin1") => {
            let text = bytes.iter().copied().map(char::from).collect();
            Ok((Cow::Owned(text), true))
        }
        None | Some("utf-8" | "utf8" | "us-ascii") => match std::str::from_utf8(bytes) {
            Ok(text) => Ok((Cow::Borrowed(text), false)),
            Err(error) => Err(format!("byte {} is not UTF-8", error.valid_up_to())),
        },
        Some(other) => Err(format!("the encoding {other} is not read here")),
    }
}

/// What the first line says.
fn encoding(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(PROLOG_BYTES_MAX)];
    let head = String::from_utf8_lossy(head);
    let line = head.trim_start().strip_prefix("<?xml")?;
    let (line, _) = line.split_once("?>")?;
    let (_, behind) = line.split_once("encoding")?;
    let behind = behind.trim_start().strip_prefix('=')?.trim_start();
    let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (name, _) = behind[1..].split_once(quote)?;
    Some(name.to_ascii_lowercase())
}

/// What stands next in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Start(String),
    End(String),
    /// All text up to the next element; never empty.
    Text(String),
    Eof,
}

struct Document<'a> {
    reader: Reader<&'a [u8]>,
    /// What was read behind a text.
    ahead: Option<Token>,
    values: usize,
    values_max: usize,
}

impl<'a> Document<'a> {
    fn new(text: &'a str, values_max: usize) -> Document<'a> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Document {
            reader,
            ahead: None,
            values: 0,
            values_max,
        }
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, Unreadable> {
        let at = usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX);
        let what = what.into();
        Err(Unreadable { at, what })
    }

    /// The whole document.
    fn call(&mut self) -> Result<(String, Vec<Value>), Unreadable> {
        self.start("methodCall")?;
        self.start("methodName")?;
        let method = self.text_until("methodName")?.trim().to_owned();
        let mut params = Vec::new();
        match self.next_element()? {
            Token::End(name) if name == "methodCall" => {}
            Token::Start(name) if name == "params" => {
                while self.starts("param", "params")? {
                    self.start("value")?;
                    params.push(self.value(0)?);
                    self.end("param")?;
                }
                self.end("methodCall")?;
            }
            other => return self.wrong(format!("{} where params should be", shown(&other))),
        }
        match self.next_element()? {
            Token::Eof => Ok((method, params)),
            other => self.wrong(format!("{} behind the call", shown(&other))),
        }
    }

    /// The whole document of an answer.
    fn answer(&mut self) -> Result<Result<Value, String>, Unreadable> {
        self.start("methodResponse")?;
        match self.next_element()? {
            Token::Start(name) if name == "params" => {
                self.start("param")?;
                self.start("value")?;
                self.value(0).map(Ok)
            }
            Token::Start(name) if name == "fault" => {
                self.start("value")?;
                let Value::Struct(members) = self.value(0)? else {
                    return self.wrong("a fault that is no struct");
                };
                let mut members = members.into_iter();
                let text = members.find(|(name, _)| name == "faultString");
                Ok(Err(text
                    .and_then(|(_, text)| text.word())
                    .unwrap_or_default()))
            }
            other => self.wrong(format!("{} where params should be", shown(&other))),
        }
    }

    /// A value, behind `<value>`; takes `</value>` too.
    fn value(&mut self, depth: usize) -> Result<Value, Unreadable> {
        self.values += 1;
        if self.values > self.values_max {
            return self.wrong(format!("more than {} values", self.values_max));
        }
        if depth > DEPTH_MAX {
            return self.wrong(format!("values more than {DEPTH_MAX} deep"));
        }
        let text = match self.next()? {
            Token::Text(text) => text,
            other => {
                self.ahead = Some(other);
                String::new()
            }
        };
        let kind = match self.next()? {
            // Without a type it is a string.
            Token::End(name) if name == "value" => return Ok(Value::Text(text)),
            Token::Start(name) if text.trim().is_empty() => name,
            other => return self.wrong(format!("{} in a value", shown(&other))),
        };
        let value = match kind.as_str() {
            "array" => Value::Array(self.array(depth)?),
            "struct" => Value::Struct(self.members(depth)?),
            scalar => {
                let text = self.text_until(scalar)?;
                match read_scalar(scalar, text) {
                    Ok(value) => value,
                    Err(what) => return self.wrong(what),
                }
            }
        };
        self.end("value")?;
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, Unreadable> {
        let mut values = Vec::new();
        self.start("data")?;
        while self.starts("value", "data")? {
            values.push(self.value(depth + 1)?);
        }
        self.end("array")?;
        Ok(values)
    }

    fn members(&mut self, depth: usize) -> Result<Vec<(String, Value)>, Unreadable> {
        let mut members = Vec::new();
        while self.starts("member", "struct")? {
            self.start("name")?;
            let name = self.text_until("name")?;
            self.start("value")?;
            let value = self.value(depth + 1)?;
            self.end("member")?;
            members.push((name, value));
        }
        Ok(members)
    }

    /// True when `name` begins, false when `around` ends.
    fn starts(&mut self, name: &str, around: &str) -> Result<bool, Unreadable> {
        match self.next_element()? {
            Token::Start(found) if found == name => Ok(true),
            Token::End(found) if found == around => Ok(false),
            other => self.wrong(format!("{} where {name} should be", shown(&other))),
        }
    }

    fn start(&mut self, name: &str) -> Result<(), Unreadable> {
        match self.next_element()? {
            Token::Start(found) if found == name => Ok(()),
            other => self.wrong(format!("{} where {name} should be", shown(&other))),
        }
    }

    fn end(&mut self, name: &str) -> Result<(), Unreadable> {
        match self.next_element()? {
            Token::End(found) if found == name => Ok(()),
            other => self.wrong(format!("{} where {name} should end", shown(&other))),
        }
    }

    /// The text of an element that holds nothing else, and its end.
    fn text_until(&mut self, name: &str) -> Result<String, Unreadable> {
        let text = match self.next()? {
            Token::Text(text) => text,
            other => {
                self.ahead = Some(other);
                String::new()
            }
        };
        match self.next()? {
            Token::End(found) if found == name => Ok(text),
            other => self.wrong(format!("{} in {name}", shown(&other))),
        }
    }

    /// The next element, where only blanks may stand before it.
    fn next_element(&mut self) -> Result<Token, Unreadable> {
        match self.next()? {
            Token::Text(text) if text.trim().is_empty() => self.next(),
            token => Ok(token),
        }
    }

    fn next(&mut self) -> Result<Token, Unreadable> {
        if let Some(token) = self.ahead.take() {
            return Ok(token);
        }
        let mut text = String::new();
        let token = loop {
            match self.event()? {
                Found::Text(part) => text.push_str(&part),
                Found::Nothing => {}
                Found::Token(token) => break token,
            }
        };
        if text.is_empty() {
            return Ok(token);
        }
        self.ahead = Some(token);
        Ok(Token::Text(text))
    }

    /// One event of the parser.
    fn event(&mut self) -> Result<Found, Unreadable> {
        let event = match self.reader.read_event() {
            Ok(event) => event,
            Err(error) => return self.wrong(error.to_string()),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match event {
            Event::Start(tag) => Found::Token(Token::Start(text(tag.name().as_ref()))),
            Event::End(tag) => Found::Token(Token::End(text(tag.name().as_ref()))),
            Event::Text(part) => Found::Text(text(&part).replace("\r\n", "\n")),
            Event::CData(part) => Found::Text(text(&part)),
            Event::GeneralRef(name) => match entity(&text(&name)) {
                Some(character) => Found::Text(character.into()),
                None => return self.wrong(format!("the entity {} is not known", text(&name))),
            },
            Event::Comment(_) | Event::Decl(_) => Found::Nothing,
            Event::Eof => Found::Token(Token::Eof),
            Event::DocType(_) => return self.wrong("a document type"),
            Event::PI(_) => return self.wrong("a processing instruction"),
            Event::Empty(_) => return self.wrong("an empty element"),
        })
    }
}

/// What an event is.
enum Found {
    Token(Token),
    Text(String),
    Nothing,
}

/// The character of an entity: the five of XML, or a number.
fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            return char::from_u32(code).filter(|it| *it != '\0');
        }
    })
}

fn read_scalar(kind: &str, text: String) -> Result<Value, String> {
    let bad = |text: &str| format!("{text:?} is no {kind}");
    let trimmed = text.trim();
    Ok(match kind {
        "string" => Value::Text(text),
        "int" | "i4" | "i8" => Value::Int(trimmed.parse().map_err(|_| bad(trimmed))?),
        "boolean" => match trimmed {
            "1" => Value::Bool(true),
            "0" => Value::Bool(false),
            _ => return Err(bad(trimmed)),
        },
        "double" => match trimmed.parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Double(number),
            _ => return Err(bad(trimmed)),
        },
        "dateTime.iso8601" => Value::Time(trimmed.to_owned()),
        "nil" | "ex:nil" if trimmed.is_empty() => Value::Nil,
        _ => return Err(format!("there is no type {kind}")),
    })
}

/// A token for people.
fn shown(token: &Token) -> String {
    match token {
        Token::Start(name) => format!("<{name}>"),
        Token::End(name) => format!("</{name}>"),
        Token::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Token::Eof => "the end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::call;

    fn params(values: &str) -> Result<Vec<Value>, String> {
        let text = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>a.b</methodName><params><param>\
             {values}</param></params></methodCall>"
        );
        let read = read(text.as_bytes());
        read.map(|call| call.params)
            .map_err(|error| error.to_string())
    }

    fn one(value: &str) -> Value {
        let value = params(&format!("<value>{value}</value>"));
        value.expect("a value").remove(0)
    }

    #[test]
    fn each_type_is_read() {
        assert_eq!(one("<int> -7 </int>"), Value::Int(-7));
        assert_eq!(one("<i4>7</i4>"), Value::Int(7));
        assert_eq!(one("<boolean>1</boolean>"), Value::Bool(true));
        assert_eq!(one("<double>1.5</double>"), Value::Double(1.5));
        assert_eq!(one("<nil/>"), Value::Nil);
        assert_eq!(one(" a b "), Value::from(" a b "));
        assert_eq!(one(""), Value::from(""));
        assert_eq!(one("<string/>"), Value::from(""));
        let text = one("<string>a&lt;&#x41;&#10;<![CDATA[<b>]]><!-- no -->c</string>");
        assert_eq!(text, Value::from("a<A\n<b>c"));
        let time = one("<dateTime.iso8601>20140101T00:00:00</dateTime.iso8601>");
        assert_eq!(time, Value::Time("20140101T00:00:00".to_owned()));
        let array =
            one(" <array> <data><value>x</value> <value><int>1</int></value></data></array> ");
        assert_eq!(array, Value::Array(vec!["x".into(), Value::Int(1)]));
        let members =
            one("<struct><member><name>n</name><value><i4>1</i4></value></member></struct>");
        assert_eq!(
            members,
            Value::Struct(vec![("n".to_owned(), Value::Int(1))])
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        let values = vec![
            Value::Text("<&>\r\n ü".to_owned()),
            Value::Double(-0.5),
            Value::Array(vec![
                Value::Nil,
                Value::Struct(vec![("a".to_owned(), true.into())]),
            ]),
        ];
        let read = read(call("dump.servers", &values).as_bytes()).expect("a call");
        assert_eq!(
            (read.method.as_str(), read.is_latin),
            ("dump.servers", false)
        );
        assert_eq!(read.params, values);
    }

    #[test]
    fn answers_and_faults_read_back() {
        let value = Value::Array(vec![1i64.into(), "a".into()]);
        let read = read_answer(crate::xml::response(&value).as_bytes());
        assert_eq!(read, Ok(Ok(value)));
        let fault = read_answer(crate::xml::fault(1, "no").as_bytes());
        assert_eq!(fault, Ok(Err("no".to_owned())));
        assert!(read_answer(b"<methodCall/>").is_err());
    }

    #[test]
    fn the_calls_of_php_are_read() {
        let of_mysqlnd_ms = b"<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<methodCall>\
            <methodName>group.lookup_servers</methodName><params>\n\
            <param><!-- group --><value><string>g\xfc</string></value></param></params>\n</methodCall>";
        let call = read(of_mysqlnd_ms).expect("a call");
        assert!(call.is_latin);
        assert_eq!(call.params, [Value::from("gü")]);
        let bare =
            b"<?xml version='1.0'?><methodCall><methodName>dump.servers</methodName></methodCall>";
        assert_eq!(read(bare).expect("a call").params, []);
    }

    #[test]
    fn what_is_no_call_is_refused() {
        let error = |text: &str| read(text.as_bytes()).expect_err(text).what;
        assert!(error("").contains("the end"));
        assert!(error("<methodResponse/>").contains("<methodResponse> where methodCall"));
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\">]><methodCall>";
        assert!(error(bomb).contains("document type"));
        assert!(error("<?php x?><methodCall>").contains("processing instruction"));
        assert!(error("<methodCall><methodName>a</methodCall>").contains("methodName"));
        let behind = "<methodCall><methodName>a</methodName></methodCall><x/>";
        assert!(error(behind).contains("behind the call"));
        let latin2 = "<?xml version=\"1.0\" encoding=\"ISO-8859-2\"?><methodCall/>";
        assert!(error(latin2).contains("iso-8859-2"));
        assert!(read(b"<methodCall>\xff").is_err());
        assert!(params("<value><int>x</int></value>").is_err());
        assert!(params("<value><boolean>2</boolean></value>").is_err());
        assert!(params("<value><double>NaN</double></value>").is_err());
        assert!(params("<value><base64>eA==</base64></value>").is_err());
        assert!(params("<value>a<int>1</int></value>").is_err());
        assert!(params("<value>&bomb;</value>").is_err());
        assert!(params("<value><int>1</int></value><value>2</value>").is_err());
    }

    #[test]
    fn depth_count_and_length_have_limits() {
        let deep = |levels: usize| {
            let open = "<value><array><data>".repeat(levels);
            let close = "</data></array></value>".repeat(levels);
            params(&format!("{open}{close}"))
        };
        assert!(deep(DEPTH_MAX).is_ok());
        assert!(deep(DEPTH_MAX + 2).expect_err("deep").contains("deep"));
        let many = "<value/>".repeat(VALUES_MAX);
        let many = params(&format!(
            "<value><array><data>{many}</data></array></value>"
        ));
        assert!(many.expect_err("many").contains("values"));
        let long = vec![b' '; BYTES_MAX + 1];
        assert!(read(&long).is_err());
    }
}
