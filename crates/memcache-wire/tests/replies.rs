//! The bytes of replies.

use memcache_wire::meta::{self, Code, Facts};
use memcache_wire::{Limits, Meta, Parsed, Request, parse, reply};

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("the test's replies are text")
}

#[test]
fn classic_replies() {
    assert_eq!(
        text(|out| reply::value(out, b"k", 7, b"va", None)),
        "VALUE k 7 2\r\nva\r\n"
    );
    assert_eq!(
        text(|out| reply::value(out, b"k", 0, b"", Some(9))),
        "VALUE k 0 0 9\r\n\r\n"
    );
    assert_eq!(text(|out| reply::number(out, 12)), "12\r\n");
    assert_eq!(text(|out| reply::line(out, reply::END)), "END\r\n");
    assert_eq!(text(|out| reply::stat(out, "pid", "1")), "STAT pid 1\r\n");
    assert_eq!(
        text(|out| reply::server_error(out, "no\r\nway")),
        "SERVER_ERROR no  way\r\n"
    );
    assert_eq!(
        text(|out| reply::client_error(out, "ü")),
        "CLIENT_ERROR ü\r\n"
    );
}

fn meta_of(line: &str) -> Meta<'_> {
    match parse(line.as_bytes(), 0, &Limits::default()) {
        Parsed::Request {
            request: Request::MetaGet(meta),
            ..
        } => meta,
        other => panic!("{other:?}"),
    }
}

#[test]
fn meta_replies_repeat_the_flags_in_their_order() {
    let facts = Facts {
        size: Some(2),
        client_flags: Some(5),
        cas: Some(77),
        ttl_s: Some(-1),
        hit_before: Some(false),
        idle_s: Some(3),
        ..Facts::default()
    };
    let hit = |line: &str, facts: &Facts| {
        let meta = meta_of(line);
        text(|out| meta::value(out, b"va", &meta::Asked::from(&meta), facts))
    };
    assert_eq!(hit("mg k v\r\n", &facts), "VA 2\r\nva\r\n");
    assert_eq!(
        hit("mg k t s Oab c f k v h l q\r\n", &facts),
        "VA 2 t-1 s2 Oab c77 f5 kk h0 l3\r\nva\r\n"
    );
    assert_eq!(hit("mg Zm9v b k v\r\n", &facts), "VA 2 kZm9v b\r\nva\r\n");
    let told = Facts {
        token: Some("1;farm"),
        cas: Some(7),
        ..Facts::default()
    };
    assert_eq!(hit("mg k G c v\r\n", &told), "VA 2 G1;farm c7\r\nva\r\n");
    let turns = Facts {
        ttl_s: Some(30),
        won: true,
        stale: true,
        being_made: true,
        ..Facts::default()
    };
    assert_eq!(hit("mg k t v c\r\n", &turns), "VA 2 t30 Z X W\r\nva\r\n");
    let meta = meta_of("mg k s Oab k c\r\n");
    let line =
        |code| text(|out| meta::line(out, code, &meta::Asked::from(&meta), &Facts::default()));
    assert_eq!(line(Code::En), "EN Oab kk\r\n");
    assert_eq!(line(Code::Hd), "HD Oab kk\r\n");
    assert_eq!(line(Code::Nf), "NF Oab kk\r\n");
    assert_eq!(line(Code::Ns), "NS Oab kk\r\n");
    assert_eq!(line(Code::Ex), "EX Oab kk\r\n");
    assert_eq!(
        text(|out| meta::debug(out, meta.key.word(), -1, 5, 10)),
        "ME k exp=-1 la=0 cas=5 fetch=no cls=1 size=10\r\n"
    );
}
