//! Headers of both versions: what is read of them, what is refused, and that bytes may come in any
//! pieces.

mod checking;

use std::net::SocketAddr;

use proxy_wire::{Found, Malformed, Origin, find, write_v1, write_v2};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address with a port")
}

/// A header of version 2 with these bytes behind its length.
fn binary(command: u8, kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("a length");
    let head = [
        SIGNATURE,
        &[0x20 | command, kind],
        &length.to_be_bytes(),
        body,
    ];
    head.concat()
}

/// 192.0.2.7:50000 to 192.0.2.1:3306.
const FOUR: &[u8] = &[192, 0, 2, 7, 192, 0, 2, 1, 0xC3, 0x50, 0x0C, 0xEA];

/// Every piece of a whole header says that more is needed, and never more than there is.
#[track_caller]
fn whole(header: &[u8], origin: Origin) {
    let mut with_more = header.to_vec();
    with_more.extend_from_slice(b"rest");
    let found = Found::Header {
        origin,
        bytes: header.len(),
    };
    assert_eq!(find(&with_more), Ok(found));
    for length in 0..header.len() {
        match find(&header[..length]) {
            Ok(Found::Part { needed, .. }) => {
                assert!(needed > length && needed <= header.len(), "{needed}");
            }
            other => panic!("{length} bytes: {other:?}"),
        }
    }
}

#[track_caller]
fn wrong(header: &[u8]) -> &'static str {
    match find(header) {
        Err(Malformed { what }) => what,
        other => panic!("{:?} is taken for {other:?}", header.escape_ascii()),
    }
}

#[test]
fn text_says_where_the_client_is() {
    let four = b"PROXY TCP4 192.0.2.7 192.0.2.1 50000 3306\r\n";
    whole(four, Origin::Client(at("192.0.2.7:50000")));
    let six = b"PROXY TCP6 2001:db8::7 2001:db8::1 50000 3306\r\n";
    whole(six, Origin::Client(at("[2001:db8::7]:50000")));
    whole(b"PROXY UNKNOWN\r\n", Origin::Own);
    whole(
        b"PROXY UNKNOWN ffff::1 ffff::1 65535 65535\r\n",
        Origin::Own,
    );
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(91));
    assert_eq!(long.len(), 107);
    whole(long.as_bytes(), Origin::Own);
}

#[test]
fn text_that_is_wrong_is_refused() {
    for line in [
        "TCP4 192.0.2.7 192.0.2.1 50000",
        "TCP4 192.0.2.7 192.0.2.1 50000 3306 1",
        "TCP4 192.0.2.7  192.0.2.1 50000 3306",
        "TCP4 2001:db8::7 2001:db8::1 50000 3306",
        "TCP6 192.0.2.7 192.0.2.1 50000 3306",
        "TCP4 192.0.2.07 192.0.2.1 50000 3306",
        "TCP4 192.0.2.7 192.0.2.1 65536 3306",
        "TCP4 192.0.2.7 192.0.2.1 +5000 3306",
        "TCP4 192.0.2.7 192.0.2.1 05000 3306",
        "TCP4 192.0.2.7 192.0.2.1 -1 3306",
        "TCP4 localhost 192.0.2.1 1 3306",
        "UDP4 192.0.2.7 192.0.2.1 50000 3306",
        "tcp4 192.0.2.7 192.0.2.1 50000 3306",
        "",
    ] {
        wrong(format!("PROXY {line}\r\n").as_bytes());
    }
    wrong(b"PROXY \xff\xfe\r\n");
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(wrong(endless.as_bytes()), "no end of line within 107 bytes");
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(92));
    wrong(long.as_bytes());
    // A lone end of line of another kind does not end it.
    let unix = b"PROXY TCP4 192.0.2.7 192.0.2.1 50000 3306\n";
    assert!(matches!(find(unix), Ok(Found::Part { sure: true, .. })));
}

#[test]
fn binary_says_where_the_client_is() {
    let client = Origin::Client(at("192.0.2.7:50000"));
    whole(&binary(1, 0x11, FOUR), client);
    let mut six = Vec::new();
    write_v2(
        &mut six,
        Some(at("[2001:db8::7]:5")),
        at("[2001:db8::1]:3306"),
    );
    whole(&six, Origin::Client(at("[2001:db8::7]:5")));
    // LOCAL: the balancer's own check. Its addresses count for nothing.
    whole(&binary(0, 0x00, b""), Origin::Own);
    whole(&binary(0, 0x11, FOUR), Origin::Own);
    whole(&binary(0, 0xFF, b"anything"), Origin::Own);
    whole(&binary(1, 0x00, b""), Origin::Own);
    whole(&binary(1, 0x00, b"anything"), Origin::Own);
    whole(&binary(1, 0x31, &[b'/'; 216]), Origin::Own);
}

#[test]
fn extensions_are_walked_to_their_end() {
    let client = Origin::Client(at("192.0.2.7:50000"));
    let with = |extensions: &[u8]| binary(1, 0x11, &[FOUR, extensions].concat());
    // An authority, a unique id of no bytes, and padding.
    whole(
        &with(b"\x02\x00\x03abc\x05\x00\x00\x04\x00\x02\0\0"),
        client,
    );
    wrong(&with(b"\x02"));
    wrong(&with(b"\x02\x00"));
    wrong(&with(b"\x02\x00\x04abc"));
    wrong(&with(b"\x02\xff\xffabc"));
}

#[test]
fn a_checksum_counts_where_there_is_one() {
    let body = [FOUR, b"\x03\x00\x04\0\0\0\0"].concat();
    let mut header = binary(1, 0x11, &body);
    assert_eq!(wrong(&header), "the checksum is wrong");
    // Computed with another program.
    let sum = 0x6F7A_B15C_u32.to_be_bytes();
    let at_sum = header.len() - 4;
    header[at_sum..].copy_from_slice(&sum);
    whole(&header, Origin::Client(at("192.0.2.7:50000")));
    header[17] ^= 1;
    assert_eq!(wrong(&header), "the checksum is wrong");
    let short = [FOUR, b"\x03\x00\x03\0\0\0"].concat();
    assert_eq!(
        wrong(&binary(1, 0x11, &short)),
        "the checksum has not four bytes"
    );
}

#[test]
fn binary_that_is_wrong_is_refused() {
    let mut old = binary(1, 0x11, FOUR);
    old[12] = 0x11;
    assert_eq!(wrong(&old), "the version is not 2");
    wrong(&binary(2, 0x11, FOUR));
    wrong(&binary(1, 0x12, FOUR));
    wrong(&binary(1, 0x41, FOUR));
    wrong(&binary(1, 0x11, &FOUR[..11]));
    wrong(&binary(1, 0x21, &[0; 35]));
    wrong(&binary(1, 0x31, &[0; 215]));
    // Its length alone is enough: the rest is not waited for.
    let head = [SIGNATURE, &[0x21, 0x11, 0xFF, 0xFF]].concat();
    assert_eq!(wrong(&head), "it has more than 4096 bytes");
}

#[test]
fn what_is_no_header_is_left_alone() {
    // A login of MySQL, a handshake of TLS, requests of memcached and HTTP.
    for bytes in [
        &b"\x20\x00\x00\x01\x85\xa6"[..],
        b"\x16\x03\x01\x02\x00",
        b"get key\r\n",
        b"PUT / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n",
        b"PROXYX",
        b"proxy TCP4",
        b"\r\n\r\nGET",
    ] {
        assert_eq!(find(bytes), Ok(Found::Nothing), "{}", bytes.escape_ascii());
    }
    for length in 0..SIGNATURE.len() {
        let needed = length + 1;
        let part = Found::Part {
            needed,
            sure: false,
        };
        assert_eq!(find(&SIGNATURE[..length]), Ok(part));
    }
}

#[test]
fn what_is_written_is_read() {
    let server = at("192.0.2.1:3306");
    for write in [write_v1, write_v2] {
        for (client, read) in [
            ("192.0.2.7:50000", "192.0.2.7:50000"),
            ("[2001:db8::7]:0", "[2001:db8::7]:0"),
            ("[::ffff:192.0.2.7]:1", "192.0.2.7:1"),
        ] {
            for server in [server, at("[2001:db8::1]:3306")] {
                let mut out = Vec::new();
                write(&mut out, Some(at(client)), server);
                whole(&out, Origin::Client(at(read)));
            }
        }
        let mut out = Vec::new();
        write(&mut out, None, server);
        whole(&out, Origin::Own);
    }
}

#[test]
fn any_bytes_do_no_harm() {
    let mut state = 0x9E37_79B9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    for _ in 0..20_000 {
        let mut header = binary(1, 0x11, FOUR);
        header.extend_from_slice(b"\x02\x00\x03abc");
        let places = header.len() as u32;
        for _ in 0..next() % 4 {
            let place = (next() % places) as usize;
            header[place] = next() as u8;
        }
        header.truncate((next() % (places + 1)) as usize);
        checking::check(&header);
    }
}
