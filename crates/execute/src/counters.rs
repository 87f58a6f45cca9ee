//! What the data plane counts. Each core has its own counters; readers add them up. Each name has a row in
//! docs/STATISTICS.md, where those stand, too, that stay 0.

pub(crate) mod farm_statistics;
pub mod statistics;

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($field:ident $help:literal;)*) => {
        /// One core's counters. Written by that core alone, so relaxed adds are exact.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        impl Counters {
            /// Every counter with its name and help, in a fixed order.
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($field), $help, self.$field.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    sessions_opened "Client connections that logged in.";
    sessions_closed "Client connections that ended after login.";
    sessions_now "Client connections that are logged in now.";
    logins_refused "Client connections that were refused at login.";
    passwords_verified "Passwords that were hashed, or opened with the router's RSA key, for a login.";
    logins_locked "Logins refused because too many wrong passwords had come for their account.";
    logins_unverified "Logins refused because too many passwords waited to be verified.";
    protocol_errors "Client connections that ended by breaking the protocol.";
    statements "Commands that were sent to a server.";
    statements_pipelined "Statements that were sent before the one in front of them was answered.";
    reads_to_replicas "Statements that a replica served.";
    cache_hits "Reads answered from the result cache.";
    cache_misses "Reads that the result cache might have answered.";
    cache_bytes_now "Bytes that the result cache takes now.";
    reads_hedged "Reads that were sent to a second replica because the first was late.";
    reads_hedged_won "Reads that the second replica answered first.";
    reads_waited "Reads that waited for a replica to have what their session wrote.";
    reads_waited_in_vain "Reads that went elsewhere because a replica did not have it in time.";
    reads_narrowed "Reads that need a part of what was written only, as the rest is in other tables.";
    transient_error_retries "Statements repeated after an error that passes by itself.";
    insert_ids_taken_anew "Inserts that ran once more because a transaction done again had claimed their AUTO_INCREMENT value.";
    statements_ruled "Statements that a rule is about.";
    statements_refused "Statements that a rule refused.";
    statements_rewritten "Statements whose text a rule changed.";
    statements_mirrored "Copies of statements that a second server accepted.";
    mirrors_failed "Copies of statements that a second server refused, or was not there for.";
    mirrors_dropped "Copies of statements that were dropped because too many waited.";
    mirrors_skipped "Statements that a rule mirrors but that cannot be copied.";
    hooks_asked "Decisions that were asked of rules' hooks.";
    hooks_failed "Decisions that a rule's hook did not make in time, or not in its form.";
    hooks_remembered "Decisions of rules' hooks that were still known.";
    statements_traced "Statements whose spans were handed over to be exported.";
    statements_traced_dropped "Statements whose spans were dropped because too many waited to be exported.";
    statements_held "Statements that waited for a primary.";
    statements_held_now "Statements and logins that wait for a primary now.";
    statements_held_us "Microseconds that statements have waited for a primary.";
    statements_held_in_vain "Statements that waited for a primary for as long as they may.";
    statements_held_refused "Statements and logins that did not wait for a primary because failover_waiters_max did.";
    connections_cut "Server connections that were ended because their server was fenced or lost the writes.";
    commits_held "Commits whose OK waited for a replica.";
    commits_held_in_vain "Commits whose OK went out after the last replica was waited for as long as is set.";
    reads_resumed "Reads that were run again after a part of their result had been sent.";
    reads_resumed_in_vain "Such reads whose result did not begin the same.";
    outcomes_committed "Writes whose answers were lost and that had happened.";
    outcomes_lost "Writes whose answers were lost and that had not happened.";
    outcomes_unknown "Writes whose answers were lost and of which nobody can say whether they have happened.";
    transactions_replayed "Transactions that were done again on a new primary and went on.";
    transactions_differ "Transactions that ended with error 1213 because they could not go on after their server was lost.";
    xa_unknown "Transactions over groups of which the client could not be told how they ended.";
    xa_unfinished "Committed transactions over groups whose last steps were left to recovery.";
    xa_lock_waits "Transactions over groups that ended because they waited for a lock for too long.";
    xa_snapshots "Snapshots over all groups that were opened.";
    xa_of_statements "Statements that wrote on several groups in a transaction of their own.";
    digests_now "Rows of digests that are kept now.";
    digest_bytes_now "Bytes that the rows of digests take now.";
    digests_evicted "Rows of digests that went because newer ones needed their room.";
    slow_statements "Slow statements that were handed over to be written into the slow log.";
    slow_statements_dropped "Slow statements that were not, because too many waited to be written.";
    gathers "SELECTs whose rows were fetched from their groups and put together on one server.";
    gathered_rows "Rows that were fetched from their groups for them.";
    gathers_on_stand_in "Those of them that ran on a primary in place of the scratch server.";
    broadcasts "SELECTs over several groups for which small tables were fetched to be sent to the groups.";
    shuffles "Those SELECTs for which rows of tables were divided among the groups.";
    broadcast_rows "Rows of tables that were sent so.";
    broadcast_bytes "Bytes of the statements with them, to all groups together.";
    broadcasts_turned_back "Those SELECTs that were gathered after all: more rows than expected, or a server that refused the tables.";
    retries "Statements that were sent again to another server.";
    reads_corrected "Statements that looked like reads and were repeated on the primary.";
    servers_lost "Statements whose server connection broke.";
    results_torn "Clients dropped because their server died inside a row.";
    statements_timed_out "Statements that were ended because they ran for too long.";
    statements_abandoned "Reads and waits that were ended because their client was gone.";
    clients_stopped_reading "Clients ended because they did not take what was sent to them.";
    clients_stopped_sending "Clients ended because they stopped in the middle of a packet.";
    pool_waits_failed "Statements that no server connection became free for.";
    prepares_repeated "Statements prepared again on another connection.";
    pins_user_variable "Sessions pinned by a user variable.";
    pins_temporary_table "Sessions pinned by a temporary table.";
    pins_user_lock "Sessions pinned by GET_LOCK.";
    pins_lock_tables "Sessions pinned by LOCK TABLES or FLUSH TABLES WITH READ LOCK.";
    pins_handler "Sessions pinned by HANDLER.";
    pins_text_prepare "Sessions pinned by PREPARE or EXECUTE as text.";
    pins_xa "Sessions pinned by XA.";
    pins_call "Sessions pinned by CALL or a compound statement.";
    pins_variable "Sessions pinned by a variable that cannot move.";
    pins_next_transaction "Sessions pinned by SET TRANSACTION until their next transaction ends.";
    pins_statement "Sessions pinned by an open cursor or long data.";
    pins_password "Sessions pinned because their password had expired when they logged in.";
    pins_status "Sessions pinned by asking for the counts of their session.";
    pins_replication "Sessions pinned by registering as a replica or reading a binlog.";
    binlog_streams_now "Sessions that read a binlog now.";
    binlog_streams_moved "Streams of binlogs that ended because their server was lost or is the primary no longer.";
    binlog_transactions_passed "Transactions that went on to readers of binlogs.";
    sessions_pinned_now "Sessions that something ties to a server connection now.";
    transactions_now "Sessions that keep a server connection for a transaction alone now.";
    holds_diagnostics "Connections held until the session's next statement, for its diagnostics.";
    connections_renewed "Connections reset after a session that was tied to them, to serve others.";
    pool_in_use "Server connections in use now.";
    pool_idle "Server connections idle now.";
    pool_waiting "Sessions that wait for a server connection now.";
    pool_opened "Server connections opened.";
    variables_refused "Session variables that a server did not set as a session had them: it went on without.";
    use_slave "Statements that a replica served.";
    use_master "Statements that a primary served.";
    use_slave_guess "Statements without a hint for a server that were taken for reads.";
    use_master_guess "Statements without a hint for a server that were not taken for reads.";
    use_slave_sql_hint "Statements that a replica served as their hint ms=slave asked.";
    use_master_sql_hint "Statements that a primary served as their hint ms=master asked.";
    use_last_used_sql_hint "Statements that the last server served as their hint ms=last_used asked.";
    use_slave_callback "Reads that a replica served after a hook had chosen the servers.";
    use_master_callback "Reads that a primary served after a hook had chosen the servers.";
    non_lazy_connections_slave_success "Connections to replicas opened during a login.";
    non_lazy_connections_slave_failure "Connections to replicas that failed to open during a login.";
    non_lazy_connections_master_success "Connections to primaries opened during a login.";
    non_lazy_connections_master_failure "Connections to primaries that failed to open during a login.";
    lazy_connections_slave_success "Connections to replicas opened for a statement.";
    lazy_connections_slave_failure "Connections to replicas that failed to open for a statement.";
    lazy_connections_master_success "Connections to primaries opened for a statement.";
    lazy_connections_master_failure "Connections to primaries that failed to open for a statement.";
    trx_autocommit_on "Times that a session's autocommit was switched on.";
    trx_autocommit_off "Times that a session's autocommit was switched off.";
    trx_master_forced "Reads that went to a primary for an open transaction or without autocommit.";
    gtid_autocommit_injections_success "Writes outside transactions whose GTID was learnt.";
    gtid_autocommit_injections_failure "Writes outside transactions that may have no known GTID.";
    gtid_commit_injections_success "COMMITs whose GTID was learnt.";
    gtid_commit_injections_failure "COMMITs that may have no known GTID.";
    gtid_implicit_commit_injections_success "Implicit commits whose GTID was learnt.";
    gtid_implicit_commit_injections_failure "Implicit commits that may have no known GTID.";
    fabric_sharding_lookup_servers_success "Look-ups of servers that clients of the Fabric door were answered.";
    fabric_sharding_lookup_servers_failure "Look-ups of the Fabric door that had no answer but an error.";
    fabric_sharding_lookup_servers_time_total "Microseconds spent on look-ups of the Fabric door.";
    fabric_sharding_lookup_servers_bytes_total "Bytes of the answers to look-ups of the Fabric door.";
    fabric_sharding_lookup_servers_xml_failure "Requests to the Fabric door that were no XML-RPC.";
    kv_acks_before_commit "Writes of key-value clients that were acknowledged before their commit.";
    kv_acks_lost "Those of them that were then not committed, as far as the router knows.";
    xa_begin "Transactions over groups that were begun.";
    xa_commit_success "Transactions over groups that were committed.";
    xa_commit_failure "Transactions over groups whose commit failed.";
    xa_rollback_success "Transactions over groups that were rolled back.";
    xa_rollback_failure "Transactions over groups whose rollback failed; always 0.";
    xa_participants "Groups that took part in transactions over groups.";
    xa_rollback_on_close "Transactions over groups that were rolled back when their client left.";
}

/// Adds one to a counter of the core that this thread is; nobody else adds to it.
#[inline]
pub fn count(counter: &AtomicU64) {
    let before = counter.load(Ordering::Relaxed);
    counter.store(before.wrapping_add(1), Ordering::Relaxed);
}
