//! The rule on words: what docs/TERMS.md lists among the words of before stands in no name and no comment.

use std::collections::BTreeSet;

use crate::rules::Violation;
use crate::source::Source;

const HEADING: &str = "## Words of before";

/// The words that are not used any more, and the names that keep them because users know these.
pub struct Retired {
    words: BTreeSet<String>,
    kept: Vec<String>,
}

impl Retired {
    /// From the page's table: a word in the first column, names in backticks in the third.
    pub fn of_page(page: &str) -> Retired {
        let (_, table) = page.split_once(HEADING).unwrap_or_default();
        let rows = table.lines().filter(|line| line.starts_with("| "));
        let (mut words, mut kept) = (BTreeSet::new(), Vec::new());
        for row in rows.skip(1) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [word, _, names] = cells[..] else {
                continue;
            };
            words.insert(word.to_owned());
            kept.extend(names.split('`').skip(1).step_by(2).map(str::to_owned));
        }
        Retired { words, kept }
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Where a file's code or comments have one of the words.
    pub fn found(&self, source: &Source) -> Vec<Violation> {
        let both = source.code.lines().zip(source.comments.lines());
        let lines = both.enumerate().filter_map(|(at, (code, comment))| {
            let text = self
                .kept
                .iter()
                .fold(format!("{code} {comment}"), |text, name| {
                    text.replace(name.as_str(), "")
                });
            let word = parts(&text).find(|part| self.has(part))?;
            let rule = format!("«{word}» is a word of before");
            let instead = "docs/TERMS.md has the word that is used now";
            Some(Violation::new(&source.path, at + 1, rule, instead))
        });
        lines.collect()
    }

    fn has(&self, part: &str) -> bool {
        self.words.contains(part)
            || part
                .strip_suffix('s')
                .is_some_and(|one| self.words.contains(one))
    }
}

/// The words that names and sentences are made of, in small letters: `TenderQueue`, `tender_queue`, `tender queue`.
fn parts(text: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(text.len() * 2);
    let mut before = ' ';
    for letter in text.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            spaced.push(' ');
        }
        spaced.push(letter);
        before = letter;
    }
    let words: Vec<String> = spaced
        .split(|letter: char| !letter.is_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.into_iter()
}

#[test]
fn rule_words_of_before() {
    let page = "# Terms\n\n## Words of before\n\n| before | now | still in |\n| --- | --- | --- |\n\
        | shunt | move | `shunt_ms` |\n| tender | store | |\n";
    let retired = Retired::of_page(page);
    let at = |text: &str| -> Vec<usize> {
        let source = Source::new("crates/farm/src/a.rs", &format!("//! A file.\n{text}"));
        retired.found(&source).iter().map(|one| one.line).collect()
    };
    assert_eq!(
        at("fn a() {}\nstruct ShuntQueue;\nlet shunts = 1;\n"),
        [3, 4]
    );
    assert_eq!(at("/// A tender.\nconst TENDER_MAX: u8 = 1;\n"), [2, 3]);
    assert_eq!(at("let shunt_ms = 1;\nlet shunting = \"a shunt\";\n"), []);
}
