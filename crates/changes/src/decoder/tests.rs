//! What decoders tell of events.

use super::*;

#[test]
fn connections_are_behind_what_else_a_gtid_of_mariadb_has() {
    let front = [9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let of = |flags: u8, rest: &[u8]| {
        let data = [&front[..], &[flags], rest].concat();
        mariadb_begin(3, &data).expect("a GTID").logged.connection
    };
    assert_eq!(of(0, &[]), None, "an older release ends here");
    assert_eq!(of(0, &[0; 6]), None, "or fills up with zeros");
    assert_eq!(of(0, &[16, 7, 1, 0, 0]), Some(263));
    let mut all = vec![1; 8];
    all.extend([1, 0, 0, 0, 2, 1, b'a', b'b', b'c']);
    all.extend([1 | 4 | 16, 2]);
    all.extend([5; 8]);
    all.extend([7, 0, 0, 0]);
    assert_eq!(of(2 | 64, &all), Some(7));
    for end in 18..all.len() {
        let data = [&front[..], &[2 | 64], &all[..end]].concat();
        assert!(mariadb_begin(3, &data).is_none(), "{end}");
    }
}

#[test]
fn mysql_says_when_it_committed_first() {
    let mut data = vec![0; 25];
    data.push(2);
    data.extend([0; 16]);
    assert_eq!(committed_us(&data), None, "before 8.0.1");
    let mut own = data.clone();
    own.extend([0x97, 0xEF, 0x0C, 0x25, 0x3F, 0x0B, 0x06]);
    assert_eq!(committed_us(&own), Some(1_701_215_692_713_879));
    let mut from_another = data.clone();
    from_another.extend([1, 0, 0, 0, 0, 0, 0x86]);
    from_another.extend([0x97, 0xEF, 0x0C, 0x25, 0x3F, 0x0B, 0x06]);
    assert_eq!(committed_us(&from_another), Some(1_701_215_692_713_879));
    own[25] = 1;
    assert_eq!(committed_us(&own), None);
}

#[test]
fn branches_end_by_statements() {
    let xid = Xid {
        format: 1,
        transaction: b"ab".to_vec(),
        branch: Vec::new(),
    };
    let committed = branch_end(b"XA COMMIT X'6162',X'',1");
    assert_eq!(committed, Some(End::BranchCommitted(xid.clone())));
    let undone = branch_end(b"XA ROLLBACK X'6162',X'',1");
    assert_eq!(undone, Some(End::BranchRolledBack(xid.clone())));
    assert_eq!(branch_end(b"XA COMMIT 'ab'"), None);
    let mut event = vec![0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    event.extend(b"ab");
    assert_eq!(prepared(&event), Some((false, xid)));
    assert_eq!(prepared(&event[..14]), None);
}

#[test]
fn what_stands_behind_the_name_of_a_file_is_no_part_of_it() {
    let named = |name: &[u8]| file_of(&[&4_u64.to_le_bytes(), name].concat());
    assert_eq!(named(b"binlog.000013"), "binlog.000013");
    for checksum in [b"\xab\xcd\x01\x02", b"\xab.\x01\x02", b"....", b"1.23"] {
        let name = [&b"my.log.000013"[..], checksum].concat();
        assert_eq!(named(&name), "my.log.000013", "{checksum:?}");
    }
    assert_eq!(named(b"odd"), "odd");
    assert_eq!(file_of(b"short"), "");
}

#[test]
fn transactions_have_names() {
    let mut data = 77_u64.to_le_bytes().to_vec();
    data.extend(3_u32.to_le_bytes());
    data.push(1);
    let open = mariadb_begin(9, &data).expect("a GTID");
    assert_eq!(open.gtid.to_string(), "3-9-77");
    assert!(open.standalone && mariadb_begin(9, &data[..12]).is_none());
}

/// What this decoder tells of an event, in short.
fn told(decoder: &mut Decoder, kind: u8, flags: u16, data: &[u8]) -> String {
    let raw = RawEvent {
        kind,
        server_id: 9,
        time_s: 7,
        end: 0,
        flags,
        data,
    };
    let mut shown = match decoder.take(raw) {
        Ok(Some(Event::Begin(gtid))) => format!("{gtid} "),
        Ok(Some(Event::Statement(it))) => String::from_utf8_lossy(&it.text).into_owned(),
        Ok(Some(other)) => format!("{other:?}"),
        Ok(None) => String::new(),
        Err(trouble) => return trouble.to_string(),
    };
    if let Some(Event::End(end)) = decoder.due() {
        shown.push_str(&format!(" {end:?} {}", decoder.position()));
    }
    shown
}

fn of(engine: Engine) -> Decoder {
    Decoder::new(engine, Position::empty(engine))
}

#[test]
fn an_alter_in_two_phases_is_told_when_it_is_committed() {
    const STANDALONE: u8 = 1;
    const HAS_COMMIT_ID: u8 = 2;
    const DDL: u8 = 32;
    const HAS_XID: u8 = 64;
    let gtid = |number: u64, flags: u8, behind: &[u8]| {
        let mut data = number.to_le_bytes().to_vec();
        data.extend([0; 4]);
        data.push(flags);
        data.extend(behind);
        data.resize(data.len().max(19), 0);
        data
    };
    let ends = |flags: &[u8]| [flags, &1_u64.to_le_bytes()].concat();
    let mut query = vec![0; 13];
    query.push(0);
    query.extend(b"ALTER TABLE t ADD b INT");
    let plain = STANDALONE | DDL;
    let mut decoder = of(Engine::MariaDb);
    let mut run = |number: u64, flags: u8, behind: &[u8]| {
        let begun = told(&mut decoder, 162, 0, &gtid(number, flags, behind));
        begun + &told(&mut decoder, code::QUERY, 0, &query)
    };
    const TEXT: &str = "ALTER TABLE t ADD b INT";
    assert_eq!(run(1, plain, &[2]), "0-9-1  Commit 0-9-1");
    let committed = format!("0-9-2 {TEXT} Commit 0-9-2");
    assert_eq!(run(2, plain, &ends(&[4])), committed);
    assert_eq!(run(3, plain, &ends(&[8])), "0-9-3  Commit 0-9-3");
    // What may stand in front of these flags, and between them and the number.
    let behind = [&[0; 8][..], &ends(&[8 | 1, 5])].concat();
    assert_eq!(
        run(4, plain | HAS_COMMIT_ID, &behind),
        "0-9-4  Commit 0-9-4"
    );
    let behind = [&[1, 0, 0, 0, 2, 1, 2, 2, 2][..], &[2]].concat();
    assert_eq!(run(5, plain | HAS_XID, &behind), "0-9-5  Commit 0-9-5");
    assert_eq!(
        run(6, plain, &[16, 8, 8, 8, 8]),
        format!("0-9-6 {TEXT} Commit 0-9-6")
    );
    assert_eq!(run(7, plain, &[]), format!("0-9-7 {TEXT} Commit 0-9-7"));
    // An ALTER cannot commit and roll back at once, and an event may not end too early.
    assert!(mariadb_begin(9, &gtid(8, plain, &ends(&[4 | 8]))).is_none());
    assert!(mariadb_begin(9, &gtid(8, plain, &[4])).is_none());
}

#[test]
fn only_what_is_known_to_hold_no_change_is_passed_over() {
    for (engine, harmless) in [
        (Engine::MariaDb, [3, 28, 161, 163, 164]),
        (Engine::MySql, [3, 28, 35, 36, 37]),
    ] {
        for kind in harmless {
            assert_eq!(
                told(&mut of(engine), kind, 0, b"x"),
                "",
                "{engine:?} {kind}"
            );
        }
        for kind in [0, 1, 7, 20, 21, 22, 43, 159, 173, 255] {
            let said = told(&mut of(engine), kind, 0, b"x");
            assert!(
                said.contains(&format!("of kind {kind}, which is not known")),
                "{said}"
            );
            // Those that read it may pass it over, says the server.
            assert_eq!(told(&mut of(engine), kind, code::IGNORABLE_FLAG, b"x"), "");
        }
    }
    assert!(told(&mut of(Engine::MySql), 163, 0, b"x").contains("not known"));
    assert!(told(&mut of(Engine::MariaDb), 35, 0, b"x").contains("not known"));
    let piece = told(&mut of(Engine::MariaDb), 172, 0, b"x");
    assert!(
        piece.contains("binlog_row_event_fragment_threshold"),
        "{piece}"
    );
}
