//! Result sets and prepared statements.

use mysql_wire::result::{
    Column, ColumnCount, ColumnKind, TextRow, Value, ValueKind, decode_binary_row,
    encode_binary_row, encode_text_row,
};
use mysql_wire::scalar::Reader;
use mysql_wire::statement::{
    Execute, Fetch, LongData, ParamKind, PrepareOk, put_param_kind, replace_id,
};

use super::{encoded, round, split};

/// Checks one input; see the module above for its form.
pub fn check(input: &[u8]) -> Option<Vec<u8>> {
    let (kind, caps, payload) = split(input)?;
    match kind {
        b'n' => round!(
            payload,
            |bytes: &[u8]| ColumnCount::decode(bytes, caps),
            |count: &ColumnCount, out| count.encode(out, caps)
        ),
        b'c' => round!(
            payload,
            |bytes| Column::decode(bytes, caps),
            |column: &Column<'_>, out| column.encode(out, caps)
        ),
        b't' => text_row(payload),
        b'b' => binary_row(payload),
        b'p' => round!(payload, PrepareOk::decode, |ok: &PrepareOk, out| ok
            .encode(out)),
        b'x' => execute(payload),
        b'd' => round!(payload, LongData::decode, |data: &LongData<'_>, out| data
            .encode(out)),
        b'h' => round!(payload, Fetch::decode, |fetch: &Fetch, out| fetch
            .encode(out)),
        _ => None,
    }
}

fn text_row(payload: &[u8]) -> Option<Vec<u8>> {
    let first: Vec<_> = TextRow::new(payload).collect::<Result<_, _>>().ok()?;
    let out = encoded(|out| encode_text_row(out, &first));
    assert_eq!(TextRow::new(&out).collect::<Result<Vec<_>, _>>(), Ok(first));
    Some(out)
}

/// The kinds of the columns stand before the row: how many, and two bytes for each. They compare
/// by their bytes, because a NaN is not equal to itself.
fn binary_row(input: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(input);
    let mut kinds = Vec::new();
    for _ in 0..reader.u8().ok()? {
        let column = ColumnKind::try_from(reader.u8().ok()?).ok()?;
        kinds.push(ValueKind {
            column,
            unsigned: reader.u8().ok()? != 0,
        });
    }
    let again = |row: &[u8]| {
        let values = decode_binary_row(row, &kinds).ok()?;
        Some(encoded(|out| {
            encode_binary_row(out, &kinds, &values).expect("decoded values fit their kinds");
        }))
    };
    let out = again(reader.rest())?;
    assert_eq!(again(&out).as_ref(), Some(&out));
    Some(out)
}

/// The number of parameters, and whether there are query attributes, stand before the execution.
fn execute(input: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(input);
    let params = reader.u16().ok()?;
    let query_attributes = reader.u8().ok()? != 0;
    let payload = reader.rest();
    let mut out = round!(
        payload,
        |bytes| Execute::decode(bytes, params, query_attributes),
        |execute: &Execute<'_>, out| execute.encode(out)
    )?;
    let execute = Execute::decode(payload, params, query_attributes).ok()?;
    if let Ok(kinds) = execute.param_kinds() {
        parameters(&execute, &kinds);
    }
    let id = execute.statement_id;
    replace_id(&mut out, !id).expect("an execution has an id");
    let other = Execute::decode(&out, params, query_attributes).expect("only the id changed");
    assert_eq!(
        Execute {
            statement_id: id,
            ..other
        },
        execute
    );
    replace_id(&mut out, id).expect("an execution has an id");
    Some(out)
}

/// Types and values read back; the values by their bytes.
fn parameters(execute: &Execute<'_>, params: &[ParamKind<'_>]) {
    let types = encoded(|out| {
        params
            .iter()
            .for_each(|param| put_param_kind(out, param, execute.query_attributes));
    });
    let again = Execute {
        types: &types,
        ..execute.clone()
    };
    assert_eq!(again.param_kinds().as_deref(), Ok(params));
    let kinds: Vec<_> = params.iter().map(|param| param.kind).collect();
    let Ok(values) = execute.decode_params(&kinds, |_| false) else {
        return;
    };
    let write = |values: &[Value<'_>]| {
        encoded(|out| {
            for (value, kind) in values.iter().zip(&kinds) {
                value
                    .write(out, *kind)
                    .expect("decoded values fit their kinds");
            }
        })
    };
    let bytes = write(&values);
    let again = Execute {
        values: &bytes,
        ..execute.clone()
    };
    let values = again
        .decode_params(&kinds, |_| false)
        .expect("what was written reads back");
    assert_eq!(write(&values), bytes);
}
