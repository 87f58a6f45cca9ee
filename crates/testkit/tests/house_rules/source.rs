//! One Rust file as the rules see it: its code without comments and strings, its comments alone,
//! where its functions begin and end, and which lines are compiled for tests only.
//!
//! This is a lexer, not a parser: it knows comments, strings, characters and braces, which is
//! enough for every rule and never disagrees with rustc on a file that compiles.

use std::ops::RangeInclusive;

/// A function with a body. Lines count from 1; `last` is the line of the closing brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub lines: RangeInclusive<usize>,
}

/// A file, read once and asked by many rules.
pub struct Source {
    /// Relative to the repository, with `/`.
    pub path: String,
    pub text: String,
    /// `text` with comments and the contents of literals blanked; same length, same lines.
    pub code: String,
    /// `text` with everything but comments blanked; same length, same lines.
    pub comments: String,
    pub functions: Vec<Function>,
    /// True when the whole file is compiled for tests only.
    pub is_test: bool,
    /// Names of modules declared as `#[cfg(test)] mod NAME;`: their files are tests too.
    pub test_modules: Vec<String>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let (test_lines, test_modules) = test_items(&code);
        let functions = functions(&code);
        let folder_of_tests = ["/tests/", "/benches/", "/fuzz_targets/"];
        Source {
            path: path.to_string(),
            text: text.to_string(),
            is_test: folder_of_tests.iter().any(|folder| path.contains(folder)),
            code,
            comments,
            functions,
            test_modules,
            test_lines,
        }
    }

    /// True when the line is compiled for tests only.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// The crate that the file belongs to, or an empty name outside `crates/`.
    pub fn crate_name(&self) -> &str {
        let inside = self.path.strip_prefix("crates/").unwrap_or("");
        inside.split('/').next().unwrap_or("")
    }

    /// The comment block `//!` that opens the file, without its marks.
    pub fn opening(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with("//!"));
        lines.map(|line| &line[3..]).collect::<Vec<_>>().join("\n")
    }
}

/// What the next byte of the source belongs to.
enum Piece {
    Code,
    Comment,
    Literal,
}

/// Splits a text into its code and its comments, each as long as the text.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut comments = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (piece, end) = next_piece(bytes, at);
        for &byte in &bytes[at..end] {
            let blank = if byte == b'\n' { b'\n' } else { b' ' };
            code.push(if matches!(piece, Piece::Code) {
                byte
            } else {
                blank
            });
            comments.push(if matches!(piece, Piece::Comment) {
                byte
            } else {
                blank
            });
        }
        at = end;
    }
    let text_of = |bytes| String::from_utf8(bytes).expect("pieces end between characters");
    (text_of(code), text_of(comments))
}

/// The piece that begins at `at` and the position behind it.
fn next_piece(bytes: &[u8], at: usize) -> (Piece, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let end = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(rest.len());
        return (Piece::Comment, at + end);
    }
    if rest.starts_with(b"/*") {
        return (Piece::Comment, block_comment_end(bytes, at));
    }
    if rest[0] == b'"' {
        return (Piece::Literal, string_end(bytes, at + 1));
    }
    let word_goes_on = at > 0 && is_word(bytes[at - 1]);
    if !word_goes_on && let Some(end) = raw_string_end(bytes, at) {
        return (Piece::Literal, end);
    }
    if rest[0] == b'\''
        && let Some(end) = character_end(bytes, at)
    {
        return (Piece::Literal, end);
    }
    (Piece::Code, at + 1)
}

/// Block comments nest.
fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The end of a string whose opening quote is behind us.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `r"…"`, `r#"…"#`, and the same behind `b` or `c`.
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + usize::from(matches!(bytes[start], b'b' | b'c'));
    if bytes.get(at) != Some(&b'r') {
        return None;
    }
    at += 1;
    let hashes = bytes[at..].iter().take_while(|&&byte| byte == b'#').count();
    at += hashes;
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let found = bytes[at + 1..]
        .windows(close.len())
        .position(|window| window == close);
    Some(found.map_or(bytes.len(), |offset| at + 1 + offset + close.len()))
}

/// A character literal; `None` for a lifetime.
fn character_end(bytes: &[u8], start: usize) -> Option<usize> {
    let first = *bytes.get(start + 1)?;
    if first == b'\\' {
        // The escaped character may itself be a quote.
        let close = bytes[start + 3..].iter().position(|&byte| byte == b'\'')?;
        return Some(start + 3 + close + 1);
    }
    let width = match first {
        0x00..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (bytes.get(start + 1 + width) == Some(&b'\'')).then_some(start + 2 + width)
}

pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Positions where `word` stands with no letter, digit or underscore against its word ends.
pub fn find_words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let opens_with_word = is_word(word.as_bytes()[0]);
    let ends_with_word = is_word(word.as_bytes()[word.len() - 1]);
    let stands_alone = |at: usize| {
        let before = opens_with_word && at > 0 && is_word(bytes[at - 1]);
        let after = ends_with_word
            && bytes
                .get(at + word.len())
                .is_some_and(|&byte| is_word(byte));
        !before && !after
    };
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| stands_alone(at))
        .collect()
}

/// The line, counted from 1, that holds a position.
pub fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()[..position]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

/// The brace that closes the one at `open`, or the end of the code.
fn closing_brace(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in bytes[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset;
        }
    }
    bytes.len().saturating_sub(1)
}

/// The `{` or `;` that ends an item's head, skipping what stands in parentheses and brackets.
fn head_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (offset, byte) in bytes[start..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth == 0 => return Some(start + offset),
            _ => {}
        }
    }
    None
}

fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for at in find_words(code, "fn") {
        let name: String = code[at + 2..]
            .trim_start()
            .chars()
            .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
            .collect();
        // A function pointer's type has no name.
        if name.is_empty() {
            continue;
        }
        let Some(open) = head_end(bytes, at) else {
            continue;
        };
        if bytes[open] == b'{' {
            let close = closing_brace(bytes, open);
            found.push(Function {
                name,
                lines: line_of(code, at)..=line_of(code, close),
            });
        }
    }
    found
}

/// Lines of items under `#[cfg(test)]`, and the names of modules declared so in files of their own.
fn test_items(code: &str) -> (Vec<RangeInclusive<usize>>, Vec<String>) {
    let bytes = code.as_bytes();
    let (mut lines, mut modules) = (Vec::new(), Vec::new());
    for (at, _) in code.match_indices("#[cfg(") {
        let Some(close) = code[at..].find(']') else {
            continue;
        };
        let condition = &code[at..at + close];
        if find_words(condition, "test").is_empty() || condition.contains("not(") {
            continue;
        }
        let item = behind_attributes(code, at + close + 1);
        let Some(end) = head_end(bytes, item) else {
            continue;
        };
        if bytes[end] == b'{' {
            lines.push(line_of(code, at)..=line_of(code, closing_brace(bytes, end)));
        } else if let Some(name) = module_name(&code[item..end]) {
            modules.push(name);
        }
    }
    (lines, modules)
}

fn behind_attributes(code: &str, mut at: usize) -> usize {
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if !code[at..].starts_with("#[") {
            return at;
        }
        at += code[at..]
            .find(']')
            .map_or(code.len() - at, |close| close + 1);
    }
}

/// The name in `mod NAME` or `pub mod NAME`.
fn module_name(head: &str) -> Option<String> {
    let (_, name) = head.split_once("mod ")?;
    Some(name.trim().to_string())
}
