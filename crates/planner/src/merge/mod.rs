//! Rows of several shards become one result: appended, in order, or grouped again.
//!
//! Rows are rows of the text protocol: a value's text, or NULL. What servers compare by a collation,
//! they send a second time as its weight (`WEIGHT_STRING`), which is compared here byte by byte; such
//! hidden columns stand behind the ones that the client sees, and are cut off at the end.
//!
//! Rows that come in another order than they were asked for are an error: a wrong answer would be
//! silent.
//!
//! Nothing is kept but one row per shard and the group at hand; and where groups are sorted by what
//! only their whole tells, as many as the limit asks for, twice at most. Groups with lists are kept until
//! the last one is known, since one list that is too long makes all of them useless.

pub mod decimal;
mod list;
mod total;

use std::cmp::Ordering;

use decimal::Decimal;
pub use list::{Around, List};
pub use total::{Aggregate, Bits, Total};

/// One row.
pub type Row = Vec<Option<Vec<u8>>>;

/// Groups with lists may have so many bytes together.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// How two values of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Byte by byte: weights, dates, binary strings.
    Bytes,
    /// As exact numbers.
    Decimal,
    /// As floating-point numbers.
    Double,
    /// As numbers: exact ones where both are printed so, else as floating-point ones.
    Number,
    /// Byte by byte, of weights that end in blanks' weights, of which one may have more.
    Padded,
}

/// One column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub column: usize,
    pub comparison: Comparison,
    pub descending: bool,
}

/// How rows are put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The order in which each shard sends its rows, and in which they are wanted; empty when any
    /// will do.
    pub order: Vec<Key>,
    /// Rows with equal keys in `order` become one: for each column how. Empty: rows stay as they are.
    pub aggregates: Vec<Aggregate>,
    /// What the lists among them are.
    pub lists: Vec<List>,
    /// Groups that do not meet all of these are left out.
    pub having: Vec<Having>,
    /// The order of the groups in the end, when it is not that of `order`. There is a limit, and as
    /// many rows are kept.
    pub sort: Vec<Key>,
    /// So many rows are left out at the front.
    pub offset: u64,
    pub limit: Option<u64>,
    /// The client sees so many columns.
    pub visible: usize,
}

/// What a group must meet: a column compared with a number. NULL meets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Having {
    pub column: usize,
    /// The orders of the column to the number that are good.
    pub orders: Vec<Ordering>,
    /// As a server prints it.
    pub number: String,
}

/// Puts the rows of some shards together.
#[derive(Debug)]
pub struct Merge {
    plan: Plan,
    shards: Vec<Shard>,
    group: Option<(Row, Vec<Total>)>,
    /// What the row before was ordered by.
    before: Option<Row>,
    /// Groups to be sorted; from the first one on when `sorted`, the last one first.
    kept: Vec<Row>,
    kept_bytes: usize,
    sorted: bool,
    /// A list was longer than is made here.
    too_long: bool,
    skipped: u64,
    given: u64,
}

#[derive(Debug, Default)]
struct Shard {
    head: Option<Row>,
    ended: bool,
}

/// What the merge needs or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next row of this shard, or its end.
    Needs(usize),
    Row(Row),
    /// Nothing comes any more; what shards still send is not wanted.
    End,
    /// A list is longer than is made here, and no row has been given: the rows themselves must be fetched.
    TooLong,
}

impl Merge {
    /// Of so many shards.
    pub fn new(plan: Plan, shards: usize) -> Merge {
        Merge {
            plan,
            shards: (0..shards).map(|_| Shard::default()).collect(),
            group: None,
            before: None,
            kept: Vec::new(),
            kept_bytes: 0,
            sorted: false,
            too_long: false,
            skipped: 0,
            given: 0,
        }
    }

    /// A shard's next row; `None` at its end.
    ///
    /// # Errors
    /// The row cannot be what the plan says of it.
    pub fn take(&mut self, shard: usize, row: Option<Row>) -> Result<(), Odd> {
        if let Some(row) = &row {
            let wanted = self.plan.order.iter().map(|key| key.column).max();
            let wanted = wanted.map_or(0, |last| last + 1).max(self.plan.visible);
            if row.len() < wanted.max(self.plan.aggregates.len()) {
                return Err(Odd("a row has too few columns".to_owned()));
            }
        }
        let shard = &mut self.shards[shard];
        shard.ended = row.is_none();
        shard.head = row;
        Ok(())
    }

    /// Goes on.
    ///
    /// # Errors
    /// A value that is to be added up is no number, or a shard's rows are not in the plan's order.
    pub fn step(&mut self) -> Result<Next, Odd> {
        loop {
            if self.plan.limit.is_some_and(|limit| self.given >= limit) {
                return Ok(Next::End);
            }
            let ordered = !self.plan.order.is_empty() || !self.plan.aggregates.is_empty();
            let empty = |shard: &Shard| shard.head.is_none() && !shard.ended;
            let waits = self.shards.iter().position(empty);
            let least = match (ordered, waits) {
                (true, Some(shard)) => return Ok(Next::Needs(shard)),
                (true, None) => self.least()?,
                (false, _) => self.shards.iter().position(|shard| shard.head.is_some()),
            };
            let row = match (least, waits) {
                (Some(at), _) => self.shards[at].head.take(),
                (None, Some(shard)) => return Ok(Next::Needs(shard)),
                (None, None) => None,
            };
            if let Some(row) = &row {
                self.follows(row)?;
            }
            let ends = row.is_none() && self.group.is_none();
            let whole = match self.plan.aggregates.is_empty() {
                _ if ends => match self.least_kept()? {
                    Some(row) => Some(row),
                    None => return Ok(Next::End),
                },
                true => row,
                false => match self.grouped(row)? {
                    Some(group) => self.chosen(group)?,
                    None => None,
                },
            };
            if self.too_long {
                return Ok(Next::TooLong);
            }
            if let Some(row) = whole.and_then(|row| self.counted(row)) {
                return Ok(Next::Row(row));
            }
        }
    }

    /// The shard whose row comes first; of equal ones the first shard's.
    fn least(&self) -> Result<Option<usize>, Odd> {
        let mut least: Option<(usize, &Row)> = None;
        for (at, shard) in self.shards.iter().enumerate() {
            let Some(row) = &shard.head else { continue };
            let first = match least {
                None => true,
                Some((_, other)) => compare(&self.plan.order, row, other)?.is_lt(),
            };
            if first {
                least = Some((at, row));
            }
        }
        Ok(least.map(|(at, _)| at))
    }

    /// The row comes behind the one before it. Where each shard's rows are in order, all are; where they
    /// are not, groups would come apart and limits cut off the wrong rows.
    fn follows(&mut self, row: &Row) -> Result<(), Odd> {
        let order = &self.plan.order;
        let Some(before) = &mut self.before else {
            self.before = Some(order.iter().map(|key| row[key.column].clone()).collect());
            return Ok(());
        };
        for (key, value) in order.iter().zip(before.iter()) {
            match key.compare(value, &row[key.column])? {
                Ordering::Less => break,
                Ordering::Equal => {}
                Ordering::Greater => {
                    return Err(Odd(
                        "a server's rows are not in the order that was asked for".to_owned(),
                    ));
                }
            }
        }
        for (key, value) in order.iter().zip(before) {
            value.clone_from(&row[key.column]);
        }
        Ok(())
    }

    /// Adds a row to its group; gives the group before when this one begins another. `None` ends the
    /// last one.
    fn grouped(&mut self, row: Option<Row>) -> Result<Option<Row>, Odd> {
        let aggregates = &self.plan.aggregates;
        let Some(row) = row else {
            let last = self.group.take();
            return self.finish(last);
        };
        if let Some((first, totals)) = &mut self.group
            && compare(&self.plan.order, first, &row)?.is_eq()
        {
            let each = totals.iter_mut().zip(&row);
            for (total, value) in each {
                total.add(value.as_deref())?;
            }
            for (at, aggregate) in aggregates.iter().enumerate() {
                if let Aggregate::Best { weight, .. } = *aggregate
                    && aggregate.is_better(row[weight].as_deref(), first[weight].as_deref())?
                {
                    // The weight goes with its value.
                    first[at].clone_from(&row[at]);
                    first[weight].clone_from(&row[weight]);
                }
            }
            return Ok(None);
        }
        let mut totals = Vec::with_capacity(aggregates.len());
        for (aggregate, value) in aggregates.iter().zip(&row) {
            totals.push(Total::begin(*aggregate, value.as_deref())?);
        }
        let before = self.group.replace((row, totals));
        self.finish(before)
    }

    fn finish(&mut self, group: Option<(Row, Vec<Total>)>) -> Result<Option<Row>, Odd> {
        let Some(group) = group else { return Ok(None) };
        let whole = finished(group, &self.plan)?;
        self.too_long |= whole.is_none();
        Ok(whole)
    }

    /// The group, unless it is left out or kept to be sorted.
    fn chosen(&mut self, group: Row) -> Result<Option<Row>, Odd> {
        for having in &self.plan.having {
            let Some(value) = &group[having.column] else {
                return Ok(None);
            };
            let order = compare_values(Comparison::Number, value, having.number.as_bytes())?;
            if !having.orders.contains(&order) {
                return Ok(None);
            }
        }
        let lists = !self.plan.lists.is_empty();
        if self.plan.sort.is_empty() && !lists {
            return Ok(Some(group));
        }
        if lists {
            self.kept_bytes += bytes_of(&group);
            self.too_long |= self.kept_bytes > KEPT_BYTES_MAX;
        }
        self.kept.push(group);
        if self.plan.sort.is_empty() {
            return Ok(None);
        }
        let limit = self.plan.limit.unwrap_or(u64::MAX);
        let most = limit.saturating_add(self.plan.offset);
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        if self.kept.len() / 2 >= most {
            self.sort_kept()?;
            self.kept.truncate(most);
            self.kept_bytes = self.kept.iter().map(bytes_of).sum();
        }
        Ok(None)
    }

    fn sort_kept(&mut self) -> Result<(), Odd> {
        let mut odd = Ok(());
        let sort = &self.plan.sort;
        self.kept.sort_by(|a, b| {
            compare(sort, a, b).unwrap_or_else(|found| {
                odd = Err(found);
                Ordering::Equal
            })
        });
        odd
    }

    /// The next one of those that were kept, when no more come.
    fn least_kept(&mut self) -> Result<Option<Row>, Odd> {
        if !self.sorted {
            self.sorted = true;
            self.sort_kept()?;
            self.kept.reverse();
        }
        Ok(self.kept.pop())
    }

    /// The row as the client sees it, unless it is to be left out.
    fn counted(&mut self, mut row: Row) -> Option<Row> {
        if self.skipped < self.plan.offset {
            self.skipped += 1;
            return None;
        }
        self.given += 1;
        row.truncate(self.plan.visible);
        Some(row)
    }
}

/// The group's row; `None` where a list in it is too long.
fn finished((first, totals): (Row, Vec<Total>), plan: &Plan) -> Result<Option<Row>, Odd> {
    let sums: Vec<Option<Vec<u8>>> = totals.iter().map(Total::value).collect();
    let count = |at: usize| sums.get(at).cloned().flatten();
    let mut row = first;
    for (at, aggregate) in plan.aggregates.iter().enumerate() {
        row[at] = match aggregate {
            Aggregate::Average { count: of, places } => {
                total::average(sums[at].as_deref(), count(*of).as_deref(), *places)
            }
            Aggregate::Mean { sum, count: of } => total::mean(
                sums[at].as_deref(),
                count(*sum).as_deref(),
                count(*of).as_deref(),
            ),
            Aggregate::Best { .. } | Aggregate::Weight => continue,
            Aggregate::List(list) => {
                let list = plan.lists.get(*list);
                let list = list.ok_or_else(|| Odd("a list is not described".to_owned()))?;
                let most = list.most.and_then(count);
                match totals[at].parts() {
                    [] => None,
                    parts => match list.whole(parts, most.as_deref())? {
                        None => return Ok(None),
                        whole => whole,
                    },
                }
            }
            _ => sums[at].clone(),
        };
    }
    Ok(Some(row))
}

fn bytes_of(row: &Row) -> usize {
    row.iter().flatten().map(Vec::len).sum()
}

/// What a server sent that cannot be what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd(pub String);

impl Key {
    /// NULL comes before everything.
    fn compare(&self, one: &Option<Vec<u8>>, other: &Option<Vec<u8>>) -> Result<Ordering, Odd> {
        let order = match (one, other) {
            (Some(one), Some(other)) => compare_values(self.comparison, one, other)?,
            (one, other) => one.is_some().cmp(&other.is_some()),
        };
        Ok(match self.descending {
            true => order.reverse(),
            false => order,
        })
    }
}

fn compare(order: &[Key], a: &Row, b: &Row) -> Result<Ordering, Odd> {
    for key in order {
        let order = key.compare(&a[key.column], &b[key.column])?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// Compares two values that are not NULL.
pub(crate) fn compare_values(how: Comparison, a: &[u8], b: &[u8]) -> Result<Ordering, Odd> {
    match how {
        Comparison::Bytes => Ok(a.cmp(b)),
        Comparison::Decimal => Ok(total::decimal(a)?.compare(&total::decimal(b)?)),
        Comparison::Double => Ok(total::double(a)?.total_cmp(&total::double(b)?)),
        Comparison::Padded => Ok(compare_padded(a, b)),
        Comparison::Number => match (Decimal::parse(a), Decimal::parse(b)) {
            (Some(a), Some(b)) => Ok(a.compare(&b)),
            _ => Ok(total::double(a)?.total_cmp(&total::double(b)?)),
        },
    }
}

/// What the longer one has more is compared with as much of the other one's blanks.
fn compare_padded(a: &[u8], b: &[u8]) -> Ordering {
    let common = a.len().min(b.len());
    let blanks = |of: &[u8], bytes: usize| of[of.len().saturating_sub(bytes)..].to_vec();
    a[..common].cmp(&b[..common]).then_with(|| {
        let (more, fewer) = (&a[common..], &b[common..]);
        match more.is_empty() {
            true => blanks(a, fewer.len()).as_slice().cmp(fewer),
            false => more.cmp(blanks(b, more.len()).as_slice()),
        }
    })
}

#[cfg(test)]
mod tests;
