//! What sessions go by and an operator may change while the router runs, out of the settings as they are written.
//!
//! Must not know: doors, the control plane.

use session::{
    Ceilings, Consistency, Counting, DistTxnTerms, Gathering, InForce, LoginLimits, Preferences,
    Reads, Settings as SessionSettings, Slowness, Transient,
};

use crate::host::machine;
use crate::settings::Settings;

/// What sessions go by and an operator may change while the router runs.
pub fn in_force(settings: &Settings) -> InForce {
    InForce {
        settings: SessionSettings {
            clients_max: count(settings.clients_max),
            pool: session::Limits {
                connections_max: count(settings.pool_connections_max),
                statements_max: per_connection(settings),
                idle_s: settings.pool_idle_s,
                wait_ms: settings.pool_wait_ms,
                connect_ms: settings.pool_connect_ms,
            },
            logins: logins(settings),
            handshake_timeout_s: settings.handshake_timeout_s,
            idle_timeout_s: settings.idle_timeout_s,
            client_read_timeout_s: settings.client_read_timeout_s,
            client_write_timeout_s: settings.client_write_timeout_s,
            statement_timeout_ms: settings.statement_timeout_ms,
            failover_wait_ms: settings.failover_wait_ms,
            failover_waiters_max: settings.failover_waiters_max,
            memory: memory(settings),
            packet_bytes_max: count(settings.packet_bytes_max),
            statements_max: count(settings.statements_max),
            statements_bytes_max: count(settings.statements_bytes_max),
            user_connections_max: u32::try_from(settings.user_connections_max).unwrap_or(u32::MAX),
            remember_passwords: settings.remember_passwords.0,
            reads: reads(settings),
            cache_bytes_max: count(settings.result_cache_bytes),
            marks: settings.marks.0,
            replay_bytes_max: count(settings.replay_bytes_max),
            gathering: Gathering {
                rows_max: settings.gather_rows_max,
                bytes_max: settings.gather_bytes_max,
                time_max_ms: settings.gather_time_max_ms,
                broadcast_bytes_max: settings.broadcast_bytes_max,
            },
            dist_txns: DistTxnTerms {
                atomic: settings.atomic.0,
                lock_wait_ms: settings.cross_lock_wait_ms,
                unsafe_xa: settings.allow_unsafe_xa.0,
                snapshot_reads: settings.snapshot_reads.0,
            },
            consistency: consistency(settings),
        },
        preferences: Preferences {
            strategy: settings.balance.0,
            slowness: Slowness {
                least_us: settings.slow_replica_ms * 1000,
                factor: u32::try_from(settings.slow_replica_factor).unwrap_or(u32::MAX),
            },
            near: settings.near.0.clone(),
        },
        counting: Counting {
            on: settings.digests.0,
            bytes_max: count(settings.digest_bytes_max),
            examples: settings.digest_examples.0,
            slow_us: settings.slow_log_ms * 1000,
            slow_one_in: settings.slow_log_sample,
            trace_one_in: settings.otlp_sample,
        },
        farm_tables: settings.farm_tables.0,
    }
}

fn logins(settings: &Settings) -> LoginLimits {
    LoginLimits {
        clients_max: count(settings.logins_max),
        failures_max: u32::try_from(settings.login_failures).unwrap_or(u32::MAX),
        queue_max: count(settings.login_queue_max),
    }
}

fn reads(settings: &Settings) -> Reads {
    Reads {
        failover: settings.read_failover.0,
        stickiness: settings.trx_stickiness.0,
        transient: Transient {
            errors: settings.transient_errors.0,
            tries: u32::try_from(settings.transient_error_tries).unwrap_or(u32::MAX),
            pause_us: settings.transient_error_pause_us,
        },
        master_on_write: settings.master_on_write.0,
        hedge_ms: settings.hedge_ms,
    }
}

/// The ceilings of what is kept for clients: half of the machine's memory where nobody has set the process's.
fn memory(settings: &Settings) -> Ceilings {
    Ceilings {
        process: match settings.memory_bytes_max {
            0 => machine::memory_bytes().map_or(usize::MAX, |bytes| count(bytes / 2)),
            bytes => count(bytes),
        },
        account: match settings.user_memory_bytes_max {
            0 => usize::MAX,
            bytes => count(bytes),
        },
    }
}

fn consistency(settings: &Settings) -> Consistency {
    Consistency {
        level: settings.consistency.0,
        client_scope: settings.client_scope.0,
        max_lag_ms: settings.max_lag_ms,
        monotonic: settings.monotonic.0,
        wait_ms: settings.session_wait_ms,
    }
}

/// Each connection has its part of a server's prepared statements, so they keep within the bound
/// without asking each other.
fn per_connection(settings: &Settings) -> usize {
    count(settings.server_statements_max / settings.pool_connections_max).max(1)
}

/// The bounds of the settings fit any machine that this runs on.
pub fn count(setting: u64) -> usize {
    usize::try_from(setting).unwrap_or(usize::MAX)
}
