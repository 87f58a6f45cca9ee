//! COM_STMT_BULK_EXECUTE on sharded and global tables: the rows are written out as texts. An INSERT of
//! one row becomes INSERTs of many, which are cut by shard; anything else runs row by row. All of it
//! happens, or nothing.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::prepared::bound;
use execute::prepared::statements::PreparedStatements;
use execute::session::Session;
use execute::variables::session_variables::SessionVariables;
use farm::error;
use mysql_wire::result::ValueKind;
use mysql_wire::statement::{BULK_UNIT_RESULTS, BulkExecute, BulkValue, Execute};
use sqltext::{Slot, Source, Span};

use super::many::{BATCH_BYTES, BATCH_ROWS, Step, Tally, Work};
use crate::place::writes::many;

/// The statement and its rows.
pub(in crate::place) struct Bulk {
    text: Vec<u8>,
    /// Its marks, in order.
    marks: Vec<Span>,
    /// Literals, one row behind the other.
    values: Vec<Vec<u8>>,
}

impl Bulk {
    fn rows(&self) -> impl Iterator<Item = &[Vec<u8>]> {
        self.values.chunks(self.marks.len().max(1))
    }

    /// A part of the text with a row's values in place of its marks.
    fn written(&self, place: (usize, usize), row: &[Vec<u8>], out: &mut Vec<u8>) {
        let mut from = place.0;
        for (mark, value) in self.marks.iter().zip(row) {
            let (start, end) = (mark.start as usize, mark.end as usize);
            if start < place.0 || end > place.1 {
                continue;
            }
            out.extend_from_slice(&self.text[from..start]);
            out.extend_from_slice(value);
            from = end;
        }
        out.extend_from_slice(&self.text[from..place.1]);
    }

    /// All marks stand between these places.
    fn is_within(&self, place: (usize, usize)) -> bool {
        let within = |mark: &Span| mark.start as usize >= place.0 && mark.end as usize <= place.1;
        self.marks.iter().all(within)
    }
}

/// Runs the client's bulk execution to its OK.
pub(in crate::place) async fn run_bulk(session: &mut Session, id: u32) -> Result<(), End> {
    let bulk = match read_bulk(&session.client.request, &session.variables, &session.prepared, id) {
        Ok(bulk) => bulk,
        Err(why) => return session.client.error(&error::NOT_OVER_GROUPS, &[why]).await,
    };
    many::in_steps(session, Work::Bulk(&bulk)).await
}

pub(in crate::place) async fn write_bulk(
    session: &mut Session,
    bulk: &Bulk,
    tally: &mut Tally,
) -> Step<String> {
    let insert = sqltext::insert(&bulk.text, &session.variables.mode);
    let row = insert.as_ref().and_then(|insert| match &insert.source {
        Source::Rows { rows, .. } if !insert.returns => match &rows[..] {
            [row] => Some((row.whole.start as usize, row.whole.end as usize)),
            _ => None,
        },
        _ => None,
    });
    let end = bulk.text.len() - usize::from(bulk.text.ends_with(b";"));
    let Some(row) = row.filter(|row| bulk.is_within(*row)) else {
        for row in bulk.rows() {
            let mut text = Vec::new();
            bulk.written((0, end), row, &mut text);
            tally.records += 1;
            many::write_inner(session, &text, tally).await?;
        }
        return Ok(match (insert.is_some(), tally.info.is_empty()) {
            (true, _) => tally.insert_info(),
            (false, true) => String::new(),
            (false, false) => tally.update_info(),
        });
    };
    let mut rows = bulk.rows().peekable();
    while rows.peek().is_some() {
        let mut text = bulk.text[..row.0].to_vec();
        let mut count = 0;
        while count < BATCH_ROWS && text.len() < BATCH_BYTES {
            let Some(next) = rows.next() else { break };
            if count > 0 {
                text.extend_from_slice(b", ");
            }
            bulk.written(row, next, &mut text);
            count += 1;
        }
        text.extend_from_slice(&bulk.text[row.1..end]);
        tally.records += count as u64;
        many::write_inner(session, &text, tally).await?;
    }
    Ok(tally.insert_info())
}

fn read_bulk(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    id: u32,
) -> Result<Bulk, &'static str> {
    const MALFORMED: &str = "the rows of this execution are not understood";
    let statement = prepared.statements.get(&id).ok_or(MALFORMED)?;
    let joined;
    let payload = match request.is_split() {
        true => {
            joined = mysql_wire::packet::joined(request.frame());
            &joined[..]
        }
        false => request.payload(),
    };
    let body = payload.get(1..).ok_or(MALFORMED)?;
    let bulk = BulkExecute::decode(body, statement.params).map_err(|_| MALFORMED)?;
    if bulk.flags & BULK_UNIT_RESULTS != 0 {
        return Err("a bulk execution cannot tell what each row did: execute row by row");
    }
    let typed = Execute {
        statement_id: id,
        flags: 0,
        iterations: 1,
        params: statement.params,
        query_attributes: false,
        null_bitmap: &[],
        new_params_bound: true,
        types: &statement.types,
        values: &[],
    };
    let kinds = typed.param_kinds().map_err(|_| MALFORMED)?;
    let kinds: Vec<ValueKind> = kinds.iter().map(|it| it.kind).collect();
    let text = prepared.statement_text(id).to_vec();
    let marks: Vec<Span> = sqltext::slots(&text, &variables.mode)
        .iter()
        .filter(|slot: &&Slot| slot.parameter.is_some())
        .map(|slot| slot.span)
        .collect();
    if kinds.len() != marks.len() {
        return Err(MALFORMED);
    }
    let mut values = Vec::new();
    let rows = bulk.decode_rows(&kinds).map_err(|_| MALFORMED)?;
    for (at, value) in rows.iter().enumerate() {
        let mut out = Vec::new();
        let kind = kinds[at % kinds.len()];
        match value {
            BulkValue::Value(value) => {
                bound::put(&mut out, value, kind, &variables.mode, variables.is_utf8())
                    .ok_or("a parameter cannot be written out: use SET NAMES utf8mb4")?;
            }
            BulkValue::Default => out.extend_from_slice(b"DEFAULT"),
            BulkValue::Ignore => {
                return Err("parameters that are to be ignored work on one group only");
            }
        }
        values.push(out);
    }
    Ok(Bulk {
        text,
        marks,
        values,
    })
}
