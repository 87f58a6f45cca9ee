//! User variables (`@name`) belong to the session: they are kept here and brought to whichever
//! connection runs its next statement.
//!
//! A literal that SET assigns is known from the text. Every other value stands on the connection
//! that ran the statement, which is parked and asked only when it leaves the session. A
//! connection with another session's variables has them set to NULL before it runs anything, for
//! routines and triggers read variables that the text does not name; what these assign unseen is
//! right only while the session stays on its connection.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use backend::{Connection, ConnectionError, Placed, VARIABLE_BYTES_MAX, Value, text_expression};
use reactor::rarely;
use sqltext::{Digest, Facts, Literal, Scope, UserVariables, Verb};

use crate::client::request::Request;
use crate::execution::exec::{Job, Shape};
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::prepared::statements::PreparedStatements;
use crate::variables::insert_id;
use crate::variables::session_variables::SessionVariables;

/// A session with more variables than this stays on its connection.
const VARIABLES_MAX: usize = 256;

/// Longer texts are named to nobody while they run: writing their normal form would keep the core.
const DIGEST_TEXT_MAX: usize = 256 * 1024;

impl SessionVariables {
    /// After a statement that names variables: which of them it may have assigned. True when the
    /// session of this number must stay on the connection.
    pub(crate) fn note_user_variables(
        &mut self,
        session: u32,
        connection: &mut Connection,
        shape: &Shape,
        text: &[u8],
        failed: bool,
    ) -> bool {
        let named = sqltext::user_variables(text, &self.mode);
        let assigned = || named.list.iter().filter(|variable| variable.assigned);
        let literals = match failed {
            true => BTreeMap::new(),
            false => self.literals(connection, shape, text),
        };
        let known: usize = literals.values().flatten().map(|value| value.len()).sum();
        let own = self.user_variables.get_or_insert_default();
        for variable in assigned() {
            match literals.get(&*variable.name) {
                Some(value) if known < VARIABLE_BYTES_MAX => {
                    own.assign(&variable.name, value.clone())
                }
                _ => own.leave_on_connection(&variable.name),
            }
        }
        own.version += u64::from(assigned().next().is_some());
        own.home = connection.id;
        let many = own.values.len() + own.unfetched.len() > VARIABLES_MAX;
        let mut placed = connection.variables.take().unwrap_or_default();
        placed.session = session;
        placed.version = own.version;
        placed.names.extend(named.list.into_iter().map(|variable| variable.name));
        if !placed.names.is_empty() {
            connection.variables = Some(placed);
        }
        named.odd || many
    }
}

/// Brings to the connection the values that the statement may ask for.
pub async fn bring_values(
    handle: &Handle,
    request: &Request,
    variables: &mut SessionVariables,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    shape: &Shape,
    job: Job,
) -> Result<(), ConnectionError> {
    if variables_differ(handle, variables, connection, shape) {
        rarely(move_variables(handle, request, variables, prepared, connection, shape, job))
            .await?;
    }
    if insert_id::needs_insert_id(shape) {
        rarely(insert_id::move_insert_id(handle, variables, connection)).await?;
    }
    Ok(())
}

/// Makes the connection's variables those of the session.
pub async fn move_variables(
    handle: &Handle,
    request: &Request,
    variables: &mut SessionVariables,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    shape: &Shape,
    job: Job,
) -> Result<(), ConnectionError> {
    let named = match shape.facts.contains(Facts::USER_VARIABLE) {
        true => sqltext::user_variables(text(request, prepared, job), &variables.mode),
        false => UserVariables::default(),
    };
    let id = handle.id;
    let placed = connection.variables.take();
    let shared = connection.owner.session != 0 && connection.owner.session != id;
    let foreign = placed.as_ref().is_some_and(|placed| placed.session != id);
    let none = BTreeMap::new();
    let values = variables.user_variables.as_ref().map_or(&none, |own| &own.values);
    let mut set: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    if shared || foreign {
        // Somebody's routine may have assigned what nobody saw.
        let read = named.list.iter().filter(|variable| variable.read);
        set.extend(read.map(|variable| (&*variable.name, None)));
    }
    let names = placed.iter().flat_map(|placed| &placed.names);
    set.extend(names.map(|name| (&**name, None)));
    set.extend(values.iter().map(|(name, value)| (&**name, Some(value))));
    let all: Vec<_> = set.iter().map(|(name, value)| (*name, *value)).collect();
    if !all.is_empty() {
        connection.set_variables(&all).await?;
    }
    let names: BTreeSet<Box<str>> = values.keys().cloned().collect();
    let connection_id = connection.id;
    connection.variables = variables.user_variables.as_mut().map(|own| {
        own.home = connection_id;
        Box::new(Placed {
            session: id,
            version: own.version,
            names,
        })
    });
    Ok(())
}

/// The name of a statement's shape; `None` where there is no text, or a huge one.
pub(crate) fn digest(
    core: &Core,
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
) -> Option<Digest> {
    let whole = matches!(job, Job::Execute(_)) || !request.is_split();
    let text = text(request, prepared, job);
    let shown = shape.hash != 0 && whole && text.len() <= DIGEST_TEXT_MAX;
    shown.then(|| core.digests.of(shape.hash, text, &variables.mode))
}

/// The text that a job runs.
pub fn text<'a>(request: &'a Request, prepared: &'a PreparedStatements, job: Job) -> &'a [u8] {
    match job {
        Job::Execute(id) => prepared.statement_text(id),
        _ => request.payload().get(1..).unwrap_or_default(),
    }
}

impl SessionVariables {
    /// The values that a SET spells out, by name; `None` is NULL.
    fn literals(
        &self,
        connection: &Connection,
        shape: &Shape,
        text: &[u8],
    ) -> BTreeMap<Box<str>, Option<Rc<[u8]>>> {
        let mut known = BTreeMap::new();
        let plain = shape.verb == Verb::SetAssignments && !shape.facts.contains(Facts::MULTIPLE);
        // An assignment inside an expression, or two of one variable: their order would count.
        if !plain || text.windows(2).any(|pair| pair == b":=") {
            return known;
        }
        for item in sqltext::assignments(text, &self.mode) {
            if item.scope != Scope::User {
                continue;
            }
            let name: Box<str> = item.name.into();
            let value = match sqltext::literal(text, item.value, &self.mode) {
                Some(Literal::Plain(word)) if word.eq_ignore_ascii_case(b"null") => None,
                Some(Literal::Plain(word)) => Some(word.into()),
                Some(Literal::Text(text)) => match connection.variable("collation_connection") {
                    Some(collation) => {
                        let collation = String::from_utf8_lossy(collation);
                        Some(text_expression(text, &collation))
                    }
                    None => continue,
                },
                None => {
                    known.remove(&name);
                    continue;
                }
            };
            known.insert(name, value);
        }
        known
    }
}

/// True when the statement needs [`move_variables`] on this connection.
pub fn variables_differ(
    handle: &Handle,
    variables: &SessionVariables,
    connection: &Connection,
    shape: &Shape,
) -> bool {
    let unseen = || shape.facts.contains(Facts::USER_VARIABLE);
    match (&variables.user_variables, &connection.variables) {
        (None, None) => unseen(),
        (Some(own), Some(placed)) => placed.session != handle.id || placed.version != own.version,
        _ => true,
    }
}

/// Another text is about to run in this one's place, with other literals: no plan of its shape fits. The
/// statement keeps its digest.
pub fn leave_text(core: &Core, variables: &SessionVariables, shape: &mut Shape, text: &[u8]) {
    core.digests.of(shape.hash, text, &variables.mode);
    (shape.scan, shape.folds) = (0, !shape.folds);
}
