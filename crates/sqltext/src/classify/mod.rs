//! What a statement is: its verb and class, and what it does to the connection that runs it.
//!
//! Job: from a statement's first tokens to its verb and class; the facts behind them ([`facts`], [`tie`]); the
//! servers' functions by name ([`functions`]).
//!
//! The one rule: [`Class::Read`] only when sure. Everything else may be anything, for it goes to the
//! primary; so an unknown statement costs speed, never truth.

pub(crate) mod facts;
pub(crate) mod functions;
pub(crate) mod statement;
pub(crate) mod tie;

use crate::classify::facts::Facts;
use crate::lexer::keyword::Kw;
use crate::lexer::token::{Kind, Token};

/// What kind of statement a text is, for the choice of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Surely reads only, and means the same on every server with the data.
    Read,
    Write,
    Ddl,
    /// BEGIN, COMMIT, ROLLBACK, savepoints.
    Transaction,
    Set,
    Use,
    /// SHOW, DESCRIBE, EXPLAIN: answers about the server that runs it.
    Show,
    Call,
    /// Locks that outlive the statement, or their release.
    Lock,
    /// `HEDDLE …`: answered by the router.
    Local,
    Other,
    /// No statement at all.
    #[default]
    Empty,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Also WITH … SELECT, and a SELECT in parentheses.
    Select,
    Values,
    Table,
    Insert,
    Replace,
    Update,
    Delete,
    LoadData,
    Create,
    Alter,
    Drop,
    Truncate,
    Rename,
    /// `read_only`: the statement says READ ONLY itself.
    Begin {
        read_only: bool,
        snapshot: bool,
    },
    /// `None` is left to `@@completion_type`.
    Commit {
        chain: Option<bool>,
        release: Option<bool>,
    },
    Rollback {
        chain: Option<bool>,
        release: Option<bool>,
    },
    RollbackTo,
    Savepoint,
    ReleaseSavepoint,
    /// `SET a = b, …`: see [`crate::assignments`].
    SetAssignments,
    /// Neither session nor global: the next transaction only.
    SetTransaction {
        session: bool,
        global: bool,
    },
    SetNames,
    SetCharset,
    SetPassword,
    SetRole,
    SetDefaultRole,
    SetResourceGroup,
    /// MariaDB's SET STATEMENT … FOR statement.
    SetStatement,
    Use,
    Show,
    Describe,
    Explain,
    /// MariaDB's ANALYZE of a statement that it runs, and MySQL's EXPLAIN ANALYZE.
    Analyze,
    AnalyzeTable,
    Call,
    Do,
    Handler,
    LockTables,
    UnlockTables,
    FlushTablesWithReadLock,
    LockInstance,
    UnlockInstance,
    Backup,
    Flush,
    Prepare,
    Execute,
    ExecuteImmediate,
    Deallocate,
    Xa,
    Kill {
        query: bool,
    },
    Grant,
    Revoke,
    Heddle,
    Optimize,
    Check,
    Checksum,
    Repair,
    CacheIndex,
    LoadIndex,
    Signal,
    GetDiagnostics,
    Binlog,
    ChangeMaster,
    StartReplica,
    StopReplica,
    Reset,
    Purge,
    Shutdown,
    Install,
    Uninstall,
    Clone,
    ImportTable,
    Help,
    /// BEGIN NOT ATOMIC and the other blocks that MariaDB runs outside of routines.
    Compound,
    Other,
    #[default]
    Empty,
}

/// The first tokens of one statement, without the parentheses that lead in.
pub(crate) struct Head {
    tokens: [(Kind, Kw); Head::TOKENS_MAX],
    count: usize,
}

impl Head {
    /// Enough for CREATE OR REPLACE DEFINER = `a`@`b` AGGREGATE FUNCTION, the longest that is read.
    pub const TOKENS_MAX: usize = 14;

    pub fn new() -> Head {
        Head {
            tokens: [(Kind::End, Kw::NONE); Head::TOKENS_MAX],
            count: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, token: &Token) {
        if self.count < Head::TOKENS_MAX {
            self.tokens[self.count] = (token.kind, token.kw);
            self.count += 1;
        }
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub fn kw(&self, index: usize) -> Kw {
        self.tokens.get(index).map_or(Kw::NONE, |token| token.1)
    }

    fn kind(&self, index: usize) -> Kind {
        self.tokens.get(index).map_or(Kind::End, |token| token.0)
    }

    fn has(&self, kw: Kw) -> bool {
        self.tokens[..self.count].iter().any(|token| token.1 == kw)
    }

    /// `a` directly followed by `b`, anywhere in the head.
    fn has_pair(&self, a: Kw, b: Kw) -> bool {
        self.tokens[..self.count]
            .windows(2)
            .any(|pair| pair[0].1 == a && pair[1].1 == b)
    }

    /// The statement names accounts as `user@host`.
    #[inline]
    pub fn names_accounts(&self) -> bool {
        match self.kw(0) {
            Kw::CREATE | Kw::ALTER | Kw::DROP | Kw::RENAME | Kw::GRANT | Kw::REVOKE | Kw::SHOW => {
                true
            }
            Kw::SET => matches!(self.kw(1), Kw::PASSWORD | Kw::ROLE | Kw::DEFAULT),
            _ => false,
        }
    }

    /// The statement may change an account or what it may do.
    pub fn changes_accounts(&self) -> bool {
        match self.kw(0) {
            Kw::GRANT | Kw::REVOKE | Kw::FLUSH => true,
            Kw::CREATE | Kw::ALTER | Kw::DROP | Kw::RENAME => {
                let at = if self.kw(1) == Kw::OR { 3 } else { 1 };
                matches!(self.kw(at), Kw::USER | Kw::ROLE)
            }
            Kw::SET => matches!(self.kw(1), Kw::PASSWORD | Kw::DEFAULT),
            _ => false,
        }
    }

    /// The statement makes, alters or drops a database.
    pub fn changes_database(&self) -> bool {
        let at = if self.kw(1) == Kw::OR { 3 } else { 1 };
        matches!(self.kw(0), Kw::CREATE | Kw::ALTER | Kw::DROP)
            && matches!(self.kw(at), Kw::DATABASE | Kw::SCHEMA)
    }

    /// A semicolon in the statement does not end it.
    pub fn has_body(&self) -> bool {
        match self.kw(0) {
            Kw::BEGIN => self.count > 1 && self.kw(1) != Kw::WORK,
            Kw::IF | Kw::CASE | Kw::WHILE | Kw::LOOP | Kw::REPEAT | Kw::FOR | Kw::DECLARE => true,
            Kw::CREATE | Kw::ALTER => self.makes_routine(),
            _ => false,
        }
    }

    /// CREATE or ALTER of something with a body.
    fn makes_routine(&self) -> bool {
        let mut at = 1;
        if self.kw(at) == Kw::OR {
            at += 2;
        }
        if self.kw(at) == Kw::DEFINER {
            // `=`, the user, and the host or the parentheses of CURRENT_USER().
            at += 3;
            while matches!(self.kind(at), Kind::UserVariable | Kind::Open | Kind::Close) {
                at += 1;
            }
        }
        if self.kw(at) == Kw::AGGREGATE {
            at += 1;
        }
        matches!(
            self.kw(at),
            Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER | Kw::EVENT | Kw::PACKAGE
        )
    }
}

/// Verb, class and the facts that follow from the verb. `with` is the keyword that WITH leads to.
pub(crate) fn classify(head: &Head, seen: Facts, with: Kw) -> (Verb, Class, Facts) {
    let none = Facts::empty();
    let commit = Facts::IMPLICIT_COMMIT;
    match head.kw(0) {
        Kw::WITH => query(with, seen),
        kw @ (Kw::SELECT | Kw::VALUES | Kw::TABLE) => query(kw, seen),
        Kw::INSERT => (Verb::Insert, Class::Write, none),
        Kw::REPLACE => (Verb::Replace, Class::Write, none),
        Kw::UPDATE => (Verb::Update, Class::Write, none),
        Kw::DELETE => (Verb::Delete, Class::Write, none),
        Kw::LOAD => load(head),
        Kw::CREATE => (Verb::Create, Class::Ddl, ddl(head)),
        Kw::ALTER => (Verb::Alter, Class::Ddl, commit),
        Kw::DROP if head.kw(1) == Kw::PREPARE => {
            (Verb::Deallocate, Class::Other, Facts::TEXT_PREPARE)
        }
        Kw::DROP => (Verb::Drop, Class::Ddl, ddl(head)),
        Kw::TRUNCATE => (Verb::Truncate, Class::Ddl, commit),
        Kw::RENAME => (Verb::Rename, Class::Ddl, commit),
        Kw::GRANT => (Verb::Grant, Class::Ddl, commit),
        Kw::REVOKE => (Verb::Revoke, Class::Ddl, commit),
        Kw::SET => set(head),
        Kw::USE => (Verb::Use, Class::Use, none),
        Kw::SHOW => (Verb::Show, Class::Show, show(head)),
        Kw::DESCRIBE | Kw::DESC | Kw::EXPLAIN => explain(head),
        Kw::ANALYZE => analyze(head),
        Kw::CALL => (Verb::Call, Class::Call, none),
        Kw::HEDDLE => (Verb::Heddle, Class::Local, none),
        kw => transaction(kw, head)
            .or_else(|| locking(kw, head, seen))
            .unwrap_or_else(|| rest(kw, head)),
    }
}

fn query(kw: Kw, seen: Facts) -> (Verb, Class, Facts) {
    let class = if seen.intersects(Facts::FORBID_READ) {
        Class::Other
    } else {
        Class::Read
    };
    match kw {
        Kw::SELECT => (Verb::Select, class, Facts::empty()),
        Kw::VALUES => (Verb::Values, class, Facts::empty()),
        Kw::TABLE => (Verb::Table, class, Facts::empty()),
        Kw::INSERT => (Verb::Insert, Class::Write, Facts::empty()),
        Kw::REPLACE => (Verb::Replace, Class::Write, Facts::empty()),
        Kw::UPDATE => (Verb::Update, Class::Write, Facts::empty()),
        Kw::DELETE => (Verb::Delete, Class::Write, Facts::empty()),
        _ => (Verb::Other, Class::Other, Facts::empty()),
    }
}

/// Temporary tables come and go without a commit.
fn ddl(head: &Head) -> Facts {
    let at = if head.kw(1) == Kw::OR { 3 } else { 1 };
    if head.kw(at) == Kw::TEMPORARY {
        Facts::empty()
    } else {
        Facts::IMPLICIT_COMMIT
    }
}

fn load(head: &Head) -> (Verb, Class, Facts) {
    match head.kw(1) {
        Kw::DATA | Kw::XML if head.kw(2) == Kw::LOCAL || head.kw(3) == Kw::LOCAL => {
            (Verb::LoadData, Class::Write, Facts::LOCAL_INFILE)
        }
        Kw::DATA | Kw::XML => (Verb::LoadData, Class::Write, Facts::empty()),
        _ => (Verb::LoadIndex, Class::Other, Facts::IMPLICIT_COMMIT),
    }
}

fn set(head: &Head) -> (Verb, Class, Facts) {
    let none = Facts::empty();
    let assigned = matches!(head.kind(2), Kind::Operator);
    match head.kw(1) {
        // `SET names = 1` and its like name variables of a routine.
        Kw::NAMES if !assigned => (Verb::SetNames, Class::Set, none),
        Kw::CHARACTER | Kw::CHAR | Kw::CHARSET if !assigned => (Verb::SetCharset, Class::Set, none),
        Kw::PASSWORD => (Verb::SetPassword, Class::Set, Facts::IMPLICIT_COMMIT),
        Kw::ROLE if !assigned => (Verb::SetRole, Class::Set, Facts::ROLE),
        Kw::DEFAULT if head.kw(2) == Kw::ROLE => {
            (Verb::SetDefaultRole, Class::Set, Facts::IMPLICIT_COMMIT)
        }
        Kw::RESOURCE => (Verb::SetResourceGroup, Class::Set, none),
        Kw::TRANSACTION if !assigned => (
            Verb::SetTransaction {
                session: false,
                global: false,
            },
            Class::Set,
            none,
        ),
        scope @ (Kw::SESSION | Kw::LOCAL | Kw::GLOBAL) if head.kw(2) == Kw::TRANSACTION => {
            let global = scope == Kw::GLOBAL;
            let facts = if global { Facts::GLOBAL_SETTING } else { none };
            (
                Verb::SetTransaction {
                    session: !global,
                    global,
                },
                Class::Set,
                facts,
            )
        }
        Kw::STATEMENT if !assigned => (Verb::SetStatement, Class::Other, none),
        _ => (Verb::SetAssignments, Class::Set, none),
    }
}

fn show(head: &Head) -> Facts {
    let counts = head.kw(1) == Kw::COUNT;
    if counts || matches!(head.kw(1), Kw::WARNINGS | Kw::ERRORS) {
        Facts::WARNINGS
    } else {
        Facts::empty()
    }
}

/// The words that may stand between EXPLAIN or ANALYZE and the statement.
fn explained(head: &Head) -> Kw {
    let mut at = 1;
    while matches!(
        head.kw(at),
        Kw::ANALYZE | Kw::EXTENDED | Kw::PARTITIONS | Kw::FORMAT
    ) {
        at += if head.kw(at) == Kw::FORMAT { 3 } else { 1 };
    }
    while head.kind(at) == Kind::Open {
        at += 1;
    }
    head.kw(at)
}

fn is_write(kw: Kw) -> bool {
    matches!(kw, Kw::INSERT | Kw::REPLACE | Kw::UPDATE | Kw::DELETE)
}

fn explain(head: &Head) -> (Verb, Class, Facts) {
    let runs = head.kw(1) == Kw::ANALYZE || head.has_pair(Kw::ANALYZE, Kw::FORMAT);
    let target = explained(head);
    let verb = match head.kw(0) {
        _ if runs => Verb::Analyze,
        Kw::EXPLAIN => Verb::Explain,
        _ => Verb::Describe,
    };
    let class = match runs {
        true if is_write(target) => Class::Write,
        // WITH may lead to a write as well.
        true => Class::Other,
        false => Class::Show,
    };
    (verb, class, Facts::empty())
}

fn analyze(head: &Head) -> (Verb, Class, Facts) {
    match explained(head) {
        Kw::TABLE | Kw::TABLES | Kw::LOCAL | Kw::NO_WRITE_TO_BINLOG | Kw::NONE => {
            (Verb::AnalyzeTable, Class::Ddl, Facts::IMPLICIT_COMMIT)
        }
        kw if is_write(kw) => (Verb::Analyze, Class::Write, Facts::empty()),
        _ => (Verb::Analyze, Class::Other, Facts::empty()),
    }
}

fn transaction(kw: Kw, head: &Head) -> Option<(Verb, Class, Facts)> {
    let none = Facts::empty();
    let verb = match kw {
        Kw::BEGIN if head.has_body() => {
            return Some((Verb::Compound, Class::Other, Facts::COMPOUND));
        }
        Kw::BEGIN => {
            let begin = Verb::Begin {
                read_only: false,
                snapshot: false,
            };
            return Some((begin, Class::Transaction, Facts::IMPLICIT_COMMIT));
        }
        Kw::START if head.kw(1) == Kw::TRANSACTION => {
            let read_only = head.has_pair(Kw::READ, Kw::ONLY);
            let begin = Verb::Begin {
                read_only,
                snapshot: head.has(Kw::SNAPSHOT),
            };
            return Some((begin, Class::Transaction, Facts::IMPLICIT_COMMIT));
        }
        Kw::COMMIT => Verb::Commit {
            chain: option(head, Kw::CHAIN),
            release: option(head, Kw::RELEASE),
        },
        Kw::ROLLBACK if head.has(Kw::TO) => Verb::RollbackTo,
        Kw::ROLLBACK => Verb::Rollback {
            chain: option(head, Kw::CHAIN),
            release: option(head, Kw::RELEASE),
        },
        Kw::SAVEPOINT => Verb::Savepoint,
        Kw::RELEASE => Verb::ReleaseSavepoint,
        _ => return None,
    };
    Some((verb, Class::Transaction, none))
}

/// `word`, or `NO word`.
fn option(head: &Head, word: Kw) -> Option<bool> {
    head.has(word).then(|| !head.has_pair(Kw::NO, word))
}

fn locking(kw: Kw, head: &Head, seen: Facts) -> Option<(Verb, Class, Facts)> {
    let both = Facts::LOCK_TABLES.union(Facts::IMPLICIT_COMMIT);
    Some(match kw {
        Kw::LOCK if head.kw(1) == Kw::INSTANCE => {
            (Verb::LockInstance, Class::Lock, Facts::LOCK_TABLES)
        }
        Kw::LOCK => (Verb::LockTables, Class::Lock, both),
        Kw::UNLOCK if head.kw(1) == Kw::INSTANCE => {
            (Verb::UnlockInstance, Class::Lock, Facts::empty())
        }
        Kw::UNLOCK => (Verb::UnlockTables, Class::Lock, Facts::IMPLICIT_COMMIT),
        Kw::BACKUP if head.kw(1) == Kw::UNLOCK => {
            (Verb::Backup, Class::Lock, Facts::IMPLICIT_COMMIT)
        }
        Kw::BACKUP => (Verb::Backup, Class::Lock, both),
        Kw::FLUSH if seen.contains(Facts::LOCK_TABLES) => {
            (Verb::FlushTablesWithReadLock, Class::Lock, both)
        }
        _ => return None,
    })
}

/// Statements about the server or the connection; none of them is routed by its content.
fn rest(kw: Kw, head: &Head) -> (Verb, Class, Facts) {
    let none = Facts::empty();
    let commit = Facts::IMPLICIT_COMMIT;
    let (verb, facts) = match kw {
        Kw::DO => (Verb::Do, none),
        Kw::HANDLER => (Verb::Handler, Facts::HANDLER),
        Kw::FLUSH => (Verb::Flush, commit),
        Kw::PREPARE => (Verb::Prepare, Facts::TEXT_PREPARE),
        Kw::EXECUTE if head.kw(1) == Kw::IMMEDIATE => (Verb::ExecuteImmediate, Facts::TEXT_PREPARE),
        Kw::EXECUTE => (Verb::Execute, Facts::TEXT_PREPARE),
        Kw::DEALLOCATE => (Verb::Deallocate, Facts::TEXT_PREPARE),
        Kw::XA => (Verb::Xa, Facts::XA),
        Kw::KILL => (
            Verb::Kill {
                query: head.has(Kw::QUERY),
            },
            Facts::KILL,
        ),
        Kw::OPTIMIZE => (Verb::Optimize, commit),
        Kw::CHECK => (Verb::Check, commit),
        Kw::CHECKSUM => (Verb::Checksum, none),
        Kw::REPAIR => (Verb::Repair, commit),
        Kw::CACHE => (Verb::CacheIndex, commit),
        Kw::SIGNAL | Kw::RESIGNAL => (Verb::Signal, none),
        Kw::GET => (Verb::GetDiagnostics, Facts::WARNINGS),
        Kw::BINLOG => (Verb::Binlog, none),
        Kw::CHANGE => (Verb::ChangeMaster, commit),
        Kw::START => (Verb::StartReplica, commit),
        Kw::STOP => (Verb::StopReplica, commit),
        Kw::RESET => (Verb::Reset, commit),
        Kw::PURGE => (Verb::Purge, none),
        Kw::SHUTDOWN | Kw::RESTART => (Verb::Shutdown, Facts::SHUTDOWN),
        Kw::INSTALL => (Verb::Install, commit),
        Kw::UNINSTALL => (Verb::Uninstall, commit),
        Kw::CLONE => (Verb::Clone, none),
        Kw::IMPORT => (Verb::ImportTable, commit),
        Kw::HELP => (Verb::Help, none),
        _ if head.has_body() => (Verb::Compound, Facts::COMPOUND),
        _ => (Verb::Other, none),
    };
    (verb, Class::Other, facts)
}
