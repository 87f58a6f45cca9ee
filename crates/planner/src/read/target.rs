//! What an UPDATE or DELETE changes: which of its tables, and whether their shard keys.

use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, ObjectName, TableFactor, TableWithJoins, Update,
};

use super::{Name, Reader, parts};
use crate::analysis::{Move, Writes};

impl Reader<'_> {
    /// After the tables of the statement were read into the innermost block.
    pub(super) fn update_targets(&mut self, update: &Update) {
        let mut writes = Writes {
            limited: update.limit.is_some(),
            returns: update.returning.is_some(),
            ..Writes::default()
        };
        for assignment in &update.assignments {
            self.assigned(assignment, &mut writes);
        }
        self.found.writes = writes;
    }

    fn assigned(&mut self, assignment: &Assignment, writes: &mut Writes) {
        let columns = match &assignment.target {
            AssignmentTarget::ColumnName(column) => std::slice::from_ref(column),
            AssignmentTarget::Tuple(columns) => &columns[..],
        };
        for column in columns {
            let Some((table, column)) = qualified(column) else {
                writes.unknown = true;
                continue;
            };
            let scope = self.scopes.last().map_or(&[][..], |scope| &scope[..]);
            let called = |name: &&Name| {
                table
                    .as_ref()
                    .is_none_or(|table| name.name.eq_ignore_ascii_case(table))
            };
            self.found.names_opaque |= scope.iter().filter(called).any(|it| is_fixed(it, scope));
            let mut meant = scope.iter().filter(called);
            let (Some(first), rest) = (meant.next(), meant.next()) else {
                writes.unknown = true;
                continue;
            };
            let mut changed = Vec::from_iter(first.reference);
            if rest.is_some() {
                // A column of one of several tables.
                writes.unknown |= scope.iter().any(|name| name.reference.is_none());
                changed = scope.iter().filter_map(|name| name.reference).collect();
                writes.references.extend(&changed);
            } else {
                self.target(first, writes);
            }
            let view = first.view;
            let moves = writes.moves.len();
            for reference in changed {
                self.moved(reference, &column, &assignment.value, writes);
            }
            // The row would be made anew elsewhere, with what the view does not show.
            self.found.names_opaque |= view && writes.moves.len() > moves;
        }
    }

    fn target(&self, name: &Name, writes: &mut Writes) {
        match (name.reference, name.global) {
            (Some(reference), _) => writes.references.push(reference),
            (None, true) => writes.global = true,
            (None, false) => writes.single = true,
        }
    }

    /// The column is the shard key of this table.
    fn moved(&mut self, reference: usize, column: &str, value: &Expr, writes: &mut Writes) {
        let key = &self.found.references[reference].table.column;
        if key.eq_ignore_ascii_case(column) {
            let same = self.key(value) == Some(reference);
            if !same {
                let to = self.constant(value);
                writes.moves.push(Move { reference, to });
            }
        }
    }

    /// After the tables of the statement were read into the innermost block.
    pub(super) fn delete_targets(&mut self, delete: &Delete, from: &[TableWithJoins]) {
        let mut writes = Writes {
            limited: delete.limit.is_some(),
            returns: delete.returning.is_some(),
            ..Writes::default()
        };
        let named: Vec<String> = match (&delete.tables[..], &delete.using) {
            // DELETE FROM a, b USING …
            ([], Some(_)) => from
                .iter()
                .filter_map(|it| factor_name(&it.relation))
                .collect(),
            (tables, _) => tables.iter().filter_map(last_name).collect(),
        };
        let scope = self.scopes.last().map_or(&[][..], |scope| &scope[..]);
        let called = |table: &String| {
            let mut names = scope.iter();
            names.find(|name| name.name.eq_ignore_ascii_case(table))
        };
        let meant: Vec<Option<&Name>> = match (&named[..], scope) {
            ([], [only]) => vec![Some(only)],
            ([], _) => vec![None],
            (named, _) => named.iter().map(called).collect(),
        };
        writes.unknown = meant.iter().any(Option::is_none);
        for name in meant.into_iter().flatten() {
            self.target(name, &mut writes);
            self.found.names_opaque |= is_fixed(name, scope);
        }
        self.found.writes = writes;
    }
}

/// It is a view that no group can change by itself; `scope`: all tables of the statement.
fn is_fixed(name: &Name, scope: &[Name]) -> bool {
    name.view && !(name.changeable && scope.len() == 1)
}

/// The last part of a name; `t.*` is `t`.
fn last_name(name: &ObjectName) -> Option<String> {
    let idents = name.0.iter().filter_map(|part| part.as_ident());
    let mut names = idents.map(|ident| ident.value.clone());
    names.rfind(|name| name != "*")
}

fn factor_name(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(alias.name.value.clone()),
            None => last_name(name),
        },
        _ => None,
    }
}

/// A column and its table, if that is named.
fn qualified(name: &ObjectName) -> Option<(Option<String>, String)> {
    match name.0.len() {
        1 | 2 => parts(name),
        3 => Some((
            Some(name.0[1].as_ident()?.value.clone()),
            name.0[2].as_ident()?.value.clone(),
        )),
        _ => None,
    }
}
