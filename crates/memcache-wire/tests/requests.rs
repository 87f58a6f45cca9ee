//! Lines and what they are: good requests, memcached's error texts, limits.

mod checking;

use memcache_wire::{Key, Limits, Login, Parsed, Request, StoreMode, login, parse};

fn limits() -> Limits {
    Limits {
        value_bytes_max: 10,
        ..Limits::default()
    }
}

fn request(input: &str) -> Request<'_> {
    checking::check(input.as_bytes());
    match parse(input.as_bytes(), 0, &limits()) {
        Parsed::Request { request, used } => {
            assert_eq!(used, input.len(), "{input:?}");
            request
        }
        other => panic!("{input:?} is {other:?}"),
    }
}

/// The error's text, with «quiet» in front when it is not sent, and how many bytes of a value are to be
/// dropped.
fn fault(input: &[u8]) -> (String, u64) {
    checking::check(input);
    match parse(input, 0, &limits()) {
        Parsed::Bad {
            reply,
            quiet,
            swallow,
            ..
        } => {
            let mark = if quiet { "quiet " } else { "" };
            (format!("{mark}{reply}"), swallow)
        }
        other => panic!("{input:?} is {other:?}"),
    }
}

fn key(word: &str) -> Key<'_> {
    Key::plain(word.as_bytes()).expect("a key of the test is a key")
}

#[test]
fn gets_take_many_keys() {
    for (line, with_cas, touch, keys) in [
        ("get a\r\n", false, None, "a"),
        ("get a\n", false, None, "a"),
        ("gets  a bb  ccc \r\n", true, None, "a bb ccc"),
        ("gat 10 a b\r\n", false, Some(10), "a b"),
        ("gats -1 a\r\n", true, Some(-1), "a"),
    ] {
        let Request::Get(get) = request(line) else {
            panic!("{line} is a get");
        };
        let found: Vec<&str> = get
            .keys()
            .map(|key| std::str::from_utf8(key.word()).expect("the test's keys are text"))
            .collect();
        assert_eq!(found.join(" "), keys);
        assert_eq!((get.with_cas, get.touch), (with_cas, touch), "{line}");
    }
}

#[test]
fn stores_have_a_mode_and_a_value() {
    for (name, mode, more) in [
        ("set", StoreMode::Set, ""),
        ("add", StoreMode::Add, ""),
        ("replace", StoreMode::Replace, ""),
        ("append", StoreMode::Append, ""),
        ("prepend", StoreMode::Prepend, ""),
        ("cas", StoreMode::Cas(77), " 77"),
    ] {
        for (last, quiet) in [("", false), (" noreply", true)] {
            let text = format!("{name} k 5 -3 4{more}{last}\r\na\r\nb\r\n");
            let Request::Store(store) = request(&text) else {
                panic!("{text} is a store");
            };
            assert_eq!((store.mode, store.quiet), (mode, quiet));
            assert_eq!(
                (store.flags, store.expiry, store.value),
                (5, -3, &b"a\r\nb"[..])
            );
            assert_eq!(store.key, key("k"));
        }
    }
    let Request::Store(store) = request("set k 4294967295 9999999999 0\r\n\r\n") else {
        panic!("an empty value is a value");
    };
    assert_eq!((store.flags, store.expiry), (u32::MAX, 9_999_999_999));
}

#[test]
fn the_other_commands() {
    let quiet = true;
    assert_eq!(
        request("delete k 0 noreply\r\n"),
        Request::Delete {
            key: key("k"),
            quiet
        }
    );
    assert_eq!(
        request("touch k 30\r\n"),
        Request::Touch {
            key: key("k"),
            expiry: 30,
            quiet: false
        }
    );
    let Request::Count(count) = request("decr k 18446744073709551615\r\n") else {
        panic!("decr counts");
    };
    assert!(count.down && count.by == u64::MAX && !count.quiet);
    for (line, delay, quiet) in [
        ("flush_all\r\n", 0, false),
        ("flush_all noreply\r\n", 0, true),
        ("flush_all 10 noreply\r\n", 10, true),
        ("flush_all -1\r\n", -1, false),
    ] {
        assert_eq!(request(line), Request::FlushAll { delay, quiet });
    }
    let Request::Stats(words) = request("stats conns x\r\n") else {
        panic!("stats are stats");
    };
    assert_eq!(words.collect::<Vec<_>>(), [&b"conns"[..], b"x"]);
    assert_eq!(request("version\r\n"), Request::Version);
    assert_eq!(request("quit\n"), Request::Quit);
    assert_eq!(request("mn\r\n"), Request::MetaNoop);
    assert_eq!(
        request("verbosity 1 noreply\r\n"),
        Request::Verbosity { quiet }
    );
}

#[test]
fn meta_flags_say_what_they_say() {
    let Request::MetaGet(meta) = request("mg k v c q T30 N60 R5 C9 E8 h Oxy\r\n") else {
        panic!("mg gets");
    };
    assert!(meta.with_value && meta.with_cas && meta.quiet && meta.with_history);
    assert_eq!(
        (meta.expiry, meta.vivify, meta.recache),
        (Some(30), Some(60), Some(5))
    );
    assert_eq!((meta.compare, meta.cas), (Some(9), Some(8)));
    assert_eq!(meta.flags.rest(), b" v c q T30 N60 R5 C9 E8 h Oxy");
    let token = |line| match request(line) {
        Request::MetaGet(meta) => meta.token,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        token("mg k v G1;farm;g1@1=0-1-9\r\n"),
        Some(&b"1;farm;g1@1=0-1-9"[..])
    );
    assert_eq!(
        (token("mg k G\r\n"), token("mg k v\r\n")),
        (Some(&b""[..]), None)
    );

    for (flags, mode) in [
        ("", StoreMode::Set),
        (" MS", StoreMode::Set),
        (" ME", StoreMode::Add),
        (" MA", StoreMode::Append),
        (" MP", StoreMode::Prepend),
        (" MR", StoreMode::Replace),
        (" C7", StoreMode::Cas(7)),
        (" MR C7", StoreMode::Cas(7)),
        (" MA C7", StoreMode::Append),
        (" ME C7", StoreMode::Add),
    ] {
        let text = format!("ms k 2 F5{flags}\r\nhi\r\n");
        let Request::MetaStore {
            meta,
            mode: found,
            value,
        } = request(&text)
        else {
            panic!("ms stores");
        };
        assert_eq!((found, value), (mode, &b"hi"[..]), "{flags}");
        assert_eq!(meta.client_flags, Some(5));
    }

    let Request::MetaDelete(meta) = request("md k I x T5 q\r\n") else {
        panic!("md deletes");
    };
    assert!(meta.invalidate && meta.without_value && meta.quiet);

    for (flags, down, delta, initial) in [
        ("", false, 1, 0),
        (" MI D5", false, 5, 0),
        (" M+", false, 1, 0),
        (" MD J3 N0", true, 1, 3),
        (" M-", true, 1, 0),
    ] {
        let text = format!("ma k{flags}\r\n");
        let Request::MetaCount { meta, down: found } = request(&text) else {
            panic!("ma counts");
        };
        assert_eq!((found, meta.delta, meta.initial), (down, delta, initial));
    }
}

#[test]
fn keys_may_be_base64() {
    let Request::MetaGet(meta) = request("mg AAEC/w== b v\r\n") else {
        panic!("mg gets");
    };
    let mut scratch = [0; memcache_wire::KEY_BYTES_MAX];
    assert_eq!(meta.key.bytes(&mut scratch), [0, 1, 2, 255]);
    assert_eq!(meta.key.word(), b"AAEC/w==");
    let Request::MetaDebug(key) = request("me Zm9v b\r\n") else {
        panic!("me shows");
    };
    assert_eq!(key.bytes(&mut scratch), b"foo");
}

const LINE: &str = "CLIENT_ERROR bad command line format";
const DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
const TOKEN: &str = "CLIENT_ERROR bad token in command line format";

fn check_table(table: &[(&str, &str, u64)]) {
    for (input, text, swallow) in table {
        let input = input.replace("{long}", &"a".repeat(251));
        let input = input.replace("{opaque}", &"o".repeat(32));
        let expected = ((*text).to_owned(), *swallow);
        assert_eq!(fault(input.as_bytes()), expected, "{input:?}");
    }
}

/// `{long}` stands for a key that is too long.
const BAD_LINES: &[(&str, &str, u64)] = &[
    ("\r\n", LINE, 0),
    (" \n", LINE, 0),
    ("boo\r\n", "ERROR", 0),
    ("  get a\r\n", "ERROR", 0),
    ("GET a\r\n", "ERROR", 0),
    ("mx a\r\n", "ERROR", 0),
    ("foo noreply\r\n", "quiet ERROR", 0),
    ("get\r\n", LINE, 0),
    ("get a {long}\r\n", LINE, 0),
    ("get a\x01b\r\n", LINE, 0),
    ("get a\rb\r\n", LINE, 0),
    ("get a\x7f\r\n", LINE, 0),
    ("gat 10\r\n", LINE, 0),
    ("gat x a\r\n", "CLIENT_ERROR invalid exptime argument", 0),
    ("set a 0 0\r\n", LINE, 0),
    ("set a 0 0 -1\r\n", LINE, 0),
    ("set a 0 0 4294967295\r\n", LINE, 0),
    ("set a 0 0 2147483647\r\n", LINE, 0),
    ("set a b 0 1\r\nx\r\n", LINE, 3),
    ("set a 4294967296 0 1\r\nx\r\n", LINE, 3),
    ("set a -1 0 1\r\nx\r\n", LINE, 3),
    (
        "set a 0 x 1 noreply\r\nx\r\n",
        "quiet CLIENT_ERROR bad command line format",
        3,
    ),
    ("set {long} 0 0 1\r\nx\r\n", LINE, 3),
    ("cas a 0 0 1\r\nx\r\n", LINE, 3),
    ("cas a 0 0 1 x\r\nx\r\n", LINE, 3),
    (
        "set a 0 0 11\r\n",
        "SERVER_ERROR object too large for cache",
        13,
    ),
    ("set a 0 0 2\r\nabc\r\n", "CLIENT_ERROR bad data chunk", 0),
    ("set a 0 0 2\r\na\r\n\n", "CLIENT_ERROR bad data chunk", 0),
    ("incr a\r\n", LINE, 0),
    (
        "incr a x\r\n",
        "CLIENT_ERROR invalid numeric delta argument",
        0,
    ),
    (
        "incr a -1\r\n",
        "CLIENT_ERROR invalid numeric delta argument",
        0,
    ),
    (
        "decr a 18446744073709551616\r\n",
        "CLIENT_ERROR invalid numeric delta argument",
        0,
    ),
    ("touch a\r\n", LINE, 0),
    ("touch a x\r\n", "CLIENT_ERROR invalid exptime argument", 0),
    ("delete\r\n", LINE, 0),
    ("delete a b\r\n", DELETE, 0),
    ("delete a 0 noreply x\r\n", DELETE, 0),
    ("slabs automove x\r\n", LINE, 0),
    (
        "flush_all x\r\n",
        "CLIENT_ERROR invalid exptime argument",
        0,
    ),
    ("verbosity\r\n", LINE, 0),
    ("verbosity x\r\n", LINE, 0),
    ("shutdown\r\n", "SERVER_ERROR: shutdown not enabled", 0),
    ("watch\r\n", "CLIENT_ERROR watch commands not allowed", 0),
];

#[test]
fn bad_lines_get_the_texts_of_memcached() {
    check_table(BAD_LINES);
}

/// `{long}` stands for a key that is too long, `{opaque}` for an opaque that is.
const BAD_META_LINES: &[(&str, &str, u64)] = &[
    ("mg\r\n", LINE, 0),
    ("mg {long} v\r\n", LINE, 0),
    ("mg a v v\r\n", "CLIENT_ERROR duplicate flag", 0),
    ("mg a m\r\n", "CLIENT_ERROR invalid flag", 0),
    ("mg a =\r\n", LINE, 0),
    ("mg a Tx\r\n", TOKEN, 0),
    ("mg a T\r\n", TOKEN, 0),
    ("mg a Nx v\r\n", TOKEN, 0),
    ("mg a C\r\n", TOKEN, 0),
    ("mg !!!! b\r\n", "CLIENT_ERROR error decoding key", 0),
    (
        "mg a O{opaque}\r\n",
        "CLIENT_ERROR opaque token too long",
        0,
    ),
    (
        "mg a b c f h k l O q s t u v T1 N1 R1 C1 E1 F1 I x\r\n",
        "CLIENT_ERROR options flags are too long",
        0,
    ),
    ("ms a\r\n", LINE, 0),
    ("ms a x\r\n", LINE, 0),
    ("ms a -1\r\n", LINE, 0),
    ("ms a 1 Fx\r\nx\r\n", LINE, 3),
    ("ms a 1 F4294967296\r\nx\r\n", LINE, 3),
    ("ms a 1 T1 T1\r\nx\r\n", "CLIENT_ERROR duplicate flag", 3),
    (
        "ms a 1 MX\r\nx\r\n",
        "CLIENT_ERROR invalid mode for ms M token",
        3,
    ),
    (
        "ms a 11 q\r\n",
        "SERVER_ERROR object too large for cache",
        13,
    ),
    ("ms a 1 q\r\nxyz\r\n", "CLIENT_ERROR bad data chunk", 0),
    ("ma a MX\r\n", "CLIENT_ERROR invalid mode for ma M token", 0),
    ("ma a Dx\r\n", "CLIENT_ERROR invalid or duplicate flag", 0),
    ("me\r\n", LINE, 0),
    ("me !!!! b\r\n", LINE, 0),
];

#[test]
fn bad_meta_lines_get_the_texts_of_memcached() {
    check_table(BAD_META_LINES);
}

#[test]
fn a_line_without_end_is_not_waited_for() {
    let hangup = |input: &[u8]| {
        checking::check(input);
        match parse(input, 0, &Limits::default()) {
            Parsed::Hangup { reply } => reply,
            other => panic!("{other:?}"),
        }
    };
    let too_long = Some("CLIENT_ERROR line too long");
    assert_eq!(hangup(&[b'x'; 2049]), too_long);
    assert_eq!(hangup(&[0x80; 2049]), None);
    assert_eq!(hangup(b"GET / HTTP/1.1\r\n"), None);
    let mut keys = b"get".to_vec();
    keys.extend(b" abcdefghi".repeat(300_000));
    assert_eq!(
        parse(&keys, 0, &Limits::default()),
        Parsed::Incomplete {
            searched: keys.len(),
            needed: keys.len() + 1
        }
    );
    keys.extend(b" abcdefghi".repeat(200_000));
    assert_eq!(hangup(&keys), too_long);
}

#[test]
fn logins_are_sets_of_a_name_and_a_password() {
    let token = |user, password, used| Login::Token {
        user,
        password,
        used,
    };
    assert_eq!(
        login(b"set any 0 0 7\r\nme pass\r\nget"),
        token(b"me", b"pass", 24)
    );
    assert_eq!(
        login(b"set any 0 0 6\r\nme a b\r\n"),
        token(b"me", b"a b", 23)
    );
    assert_eq!(
        login(b"set any 0 0 7\r\nme p"),
        Login::Incomplete { needed: 24 }
    );
    assert_eq!(login(b"set any"), Login::Incomplete { needed: 8 });
    for (input, text) in [
        (&b"get any\r\n"[..], "CLIENT_ERROR unauthenticated"),
        (b"set any 0 0 x\r\n", "CLIENT_ERROR unauthenticated"),
        (b"set any 0 0 16385\r\n", "CLIENT_ERROR auth token too long"),
        (
            b"set any 0 0 4\r\nmepa\r\n",
            "CLIENT_ERROR bad authentication token format",
        ),
        (
            b"set any 0 0 4\r\nm paXX",
            "CLIENT_ERROR bad command line termination",
        ),
    ] {
        let Login::Bad { reply, used } = login(input) else {
            panic!("{input:?}");
        };
        assert_eq!((reply, used), (text, input.len()));
    }
    assert_eq!(login(b"\r\n"), Login::Hangup);
    assert_eq!(login(&[b'x'; 3000]), Login::Hangup);
}
