//! Tests of the lexer: where tokens begin and end, in both dialects and all modes.

use super::*;
use crate::lexer::mode::Dialect;

const MARIADB: Mode = Mode::new(Dialect::MariaDb, 101_106);
const MYSQL: Mode = Mode::new(Dialect::MySql, 80_036);

/// The tokens of `text`, each as its first letter of kind and its bytes.
fn tokens_of(text: &[u8], mode: &Mode) -> Vec<String> {
    let mut lexer = Lexer::new(text, mode);
    let mut all = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind == Kind::End {
            return all;
        }
        let kind = match token.kind {
            Kind::Word => "w",
            Kind::Quoted => "q",
            Kind::Literal => "l",
            Kind::UserVariable => "u",
            Kind::SystemVariable => "s",
            Kind::Placeholder => "p",
            _ => "o",
        };
        all.push(format!(
            "{kind}:{}",
            String::from_utf8_lossy(token.bytes(text))
        ));
    }
}

fn tokens(text: &str) -> String {
    tokens_of(text.as_bytes(), &MARIADB).join(" ")
}

/// Takes the tokens as the hot path does.
#[derive(Default)]
struct Collector(Vec<(Kind, Kw, u32, u32, bool)>);

impl Visitor for Collector {
    fn see(&mut self, token: Token, past: &Past) {
        let touches = past.touches(&token);
        self.0
            .push((token.kind, token.kw, token.start, token.end, touches));
    }

    fn see_rare(&mut self, token: Token, past: &Past) {
        self.see(token, past);
    }
}

#[test]
fn names_and_dots() {
    assert_eq!(tokens("a.b"), "w:a o:. w:b");
    assert_eq!(tokens("a.5b"), "w:a o:. w:5b");
    assert_eq!(tokens("a.5"), "w:a o:. w:5");
    assert_eq!(tokens("a .5"), "w:a l:.5");
    assert_eq!(tokens("`a`.`b`"), "q:`a` o:. q:`b`");
    assert_eq!(tokens("`a``b`"), "q:`a``b`");
    assert_eq!(tokens("t.1e5"), "w:t o:. w:1e5");
    assert_eq!(tokens("t.x'a'"), "w:t o:. w:x l:'a'");
    assert_eq!(tokens("1e5.5"), "l:1e5 l:.5");
    assert_eq!(tokens("$a_1 é1"), "w:$a_1 w:é1");
    assert_eq!(
        tokens("a_word_longer_than_sixteen_bytes+1"),
        "w:a_word_longer_than_sixteen_bytes o:+ l:1"
    );
}

#[test]
fn words_next_to_dots_are_no_keywords() {
    let kws = |text: &str| -> Vec<Kw> {
        let mut lexer = Lexer::new(text.as_bytes(), &MARIADB);
        let mut all = Vec::new();
        loop {
            let token = lexer.next();
            match token.kind {
                Kind::End => return all,
                Kind::Word => all.push(token.kw),
                _ => {}
            }
        }
    };
    assert_eq!(kws("update.select"), [Kw::NONE, Kw::NONE]);
    assert_eq!(kws("update . select"), [Kw::UPDATE, Kw::SELECT]);
    assert_eq!(kws("mysql.user"), [Kw::MYSQL, Kw::NONE]);
    assert_eq!(kws("s.nextval"), [Kw::NONE, Kw::NEXTVAL]);
    assert_eq!(kws("SELECT*"), [Kw::SELECT]);
}

#[test]
fn numbers_and_signs() {
    assert_eq!(tokens("a=-1"), "w:a o:= l:-1");
    assert_eq!(tokens("a-1"), "w:a o:- l:1");
    assert_eq!(tokens("(-1,+.5)"), "o:( l:-1 o:, l:+.5 o:)");
    assert_eq!(tokens("SELECT -1e-3"), "w:SELECT l:-1e-3");
    assert_eq!(tokens("NOW() -1"), "w:NOW o:( o:) o:- l:1");
    assert_eq!(tokens("- 1"), "o:- l:1");
    assert_eq!(tokens("=-1a"), "o:= o:- w:1a");
    assert_eq!(tokens("12345678 1234567890.5"), "l:12345678 l:1234567890.5");
    assert_eq!(tokens("1.a"), "l:1. w:a");
}

#[test]
fn strings_with_prefixes() {
    assert_eq!(
        tokens("N'a' n 'a' X'1F' b'0' x y"),
        "l:N'a' w:n l:'a' l:X'1F' l:b'0' w:x w:y"
    );
    assert_eq!(tokens("_utf8'a' nn'a'"), "w:_utf8 l:'a' w:nn l:'a'");
    let mut ansi = MYSQL;
    ansi.ansi_quotes = true;
    assert_eq!(
        tokens_of(br#"'a' "b" @"c""#, &ansi).join(" "),
        r#"l:'a' q:"b" u:@"c""#
    );
    assert_eq!(tokens_of(br#""b\"c""#, &MYSQL).join(" "), r#"l:"b\"c""#);
}

#[test]
fn variables() {
    assert_eq!(
        tokens("@a,@`b c`,@'d',@"),
        "u:@a o:, u:@`b c` o:, u:@'d' o:, u:@"
    );
    assert_eq!(tokens("@@a+@@session . b"), "s:@@a o:+ s:@@session o:. w:b");
    assert_eq!(tokens("@@global.`x`;"), "s:@@global.`x` o:;");
    assert_eq!(tokens("@@a . "), "s:@@a o:.");
    assert_eq!(tokens("@a.b:=1"), "u:@a.b o::= l:1");
}

#[test]
fn operators_are_as_long_as_the_servers_have_them() {
    assert_eq!(
        tokens("a:=b->c->>d||e&&f<=>g<=h<<i!=j<>k"),
        "w:a o::= w:b o:-> w:c o:->> w:d o:|| w:e o:&& w:f o:<=> w:g o:<= w:h o:<< w:i o:!= w:j o:<> w:k"
    );
    assert_eq!(tokens("a*/b"), "w:a o:* o:/ w:b");
    assert_eq!(tokens("?,??"), "p:? o:, p:? p:?");
}

#[test]
fn comments_vanish_and_executed_ones_do_not() {
    assert_eq!(tokens("a/* b */c -- d\ne #f"), "w:a w:c w:e");
    assert_eq!(tokens("/*!50000 a */ b */"), "w:a w:b o:* o:/");
    assert_eq!(tokens("/*M!100000a*/"), "w:a");
    let mysql = |text: &str| tokens_of(text.as_bytes(), &MYSQL).join(" ");
    assert_eq!(mysql("/*M!100000a*/b"), "w:b");
    assert_eq!(mysql("/*!80036a*/b/*!80037c*/"), "w:a w:b");
}

#[test]
fn charsets_protect_their_second_bytes() {
    let with = |text: &[u8], multibyte| {
        let mut mode = MYSQL;
        mode.multibyte = multibyte;
        let mut lexer = Lexer::new(text, &mode);
        let mut count = 0;
        while lexer.next().kind != Kind::End {
            count += 1;
        }
        (count, lexer.doubtful())
    };
    // In gbk 0xBF5C is one character, in utf8 the backslash hides the quote.
    let attack = b"'\xBF\x5C' OR 1=1";
    assert_eq!(with(attack, Multibyte::Gbk), (5, false));
    assert_eq!(with(attack, Multibyte::None), (1, true));
    assert_eq!(with(attack, Multibyte::Unknown), (1, true));
    // A name whose second byte is a backtick.
    assert_eq!(with(b"\x81\x60a", Multibyte::Sjis), (1, false));
    assert_eq!(with(b"`\x81\x60a`", Multibyte::Sjis), (1, false));
    // 0xA0 may be a space: what stands behind it is looked at by itself.
    assert_eq!(with(b"1,\xA0GET_LOCK(", Multibyte::SingleByte), (5, false));
    assert_eq!(with(b"1,\xA0GET_LOCK(", Multibyte::None), (4, false));
    assert!(with(b"1 --\xA0'\n", Multibyte::SingleByte).1);
}

#[test]
fn both_ways_to_take_tokens_agree() {
    let texts = [
        "SELECT a, `b` FROM t WHERE x = -1 AND y IN (?, 'z') -- c",
        "/*! a */ b",
        "'x",
        "  ",
        "",
        "n'a' b.c @d @@e 0x1F 12345678 ;;",
        "a /*! b",
    ];
    for text in texts {
        let mut collector = Collector::default();
        Lexer::new(text.as_bytes(), &MYSQL).run(&mut collector);
        let mut one_by_one = Collector::default();
        let mut past = Past::new();
        let mut lexer = Lexer::new(text.as_bytes(), &MYSQL);
        loop {
            let token = lexer.next();
            one_by_one.see(token, &past);
            past.push(&token);
            if token.kind == Kind::End {
                break;
            }
        }
        assert_eq!(collector.0, one_by_one.0, "{text}");
    }
}

#[test]
fn work_grows_with_the_length_only() {
    // Texts that make a lexer look far ahead, again and again, if it is made badly.
    let parts = [
        "/*!99999 /* ",
        "'",
        "@@a .",
        "@@ ",
        "+1a",
        "((((",
        "IN((",
        "VALUES(1),(",
        "/*",
        "`a`.",
        "1e+",
        "--",
        "\\'",
        "/*heddle a=1*/",
        ";",
        "BEGIN;",
    ];
    for part in parts {
        let count = |repeats: usize| {
            let text = part.repeat(repeats);
            let mut lexer = Lexer::new(text.as_bytes(), &MARIADB);
            let mut steps = 0;
            let mut end = 0;
            loop {
                let token = lexer.next();
                assert!(token.start >= end, "{part}");
                end = token.end;
                if token.kind == Kind::End {
                    return steps;
                }
                assert!(token.end > token.start, "{part}");
                steps += 1;
            }
        };
        assert!(count(2000) <= 2 * count(1000) + 2, "{part}");
        assert!(count(1000) <= 1000 * part.len(), "{part}");
    }
}
