//! From a call to what carries it out: by which router, one after the other, in which part.
//!
//! Must not know: what a command does.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use farm::Kill;
use tokio::sync::oneshot;

use crate::background::Background;
use crate::commander::Answer;
use crate::commands::ConfigCommands;
use crate::commands::JobCommands;
use crate::commands::RouterCommands;
use crate::commands::ShardingCommands;
use crate::commands::digest;
use crate::commands::dump::DumpCommands;
use crate::commands::failover::ThreatCommands;
use crate::commands::group::GroupCommands;
use crate::commands::inspect::InspectCommands;
use crate::commands::kv::KvCommands;
use crate::commands::router;
use crate::commands::server::ServerCommands;
use crate::commands::transaction::TransactionCommands;
use crate::context::Context;
use crate::context::editing::TRIES;
use crate::context::supervision::caught;
use crate::diagnosis::Doctor;
use crate::leadership::election::Election;
use crate::leadership::lead::Lead;
use crate::peers::permits::PermitShares;
use crate::peers::questions::{DRAINED, FACTS, GROUP, KILL, RELEASE, SESSIONS, WRITES, column};
use crate::peers::routers::PeerRouters;
use crate::reshard::Resharding;
use crate::row_cache_feed::client_writes::ClientWrites;
use crate::sinks::commands::StreamCommands;
use catalog::command::{Arguments, Call, CommandError, DoneBy, MapVerb, Table, Verb};

/// Carries out the commands of the table.
pub(crate) struct Commands {
    pub(crate) context: Arc<Context>,
    pub(crate) background: Arc<Background>,
    pub(crate) election: Arc<Election>,
    pub(crate) peers: Arc<PeerRouters>,
    pub(crate) permits: Arc<PermitShares>,
    pub(crate) client_writes: Arc<ClientWrites>,
    pub(crate) doctor: Arc<Doctor>,
    pub(crate) reshard: Arc<Resharding>,
    pub(crate) config: Arc<ConfigCommands>,
    pub(crate) dumps: Arc<DumpCommands>,
    pub(crate) groups: Arc<GroupCommands>,
    pub(crate) inspect: Arc<InspectCommands>,
    pub(crate) moves: Arc<JobCommands>,
    pub(crate) kv: Arc<KvCommands>,
    pub(crate) routers: Arc<RouterCommands>,
    pub(crate) servers: Arc<ServerCommands>,
    pub(crate) streams: Arc<StreamCommands>,
    pub(crate) maps: Arc<ShardingCommands>,
    pub(crate) transactions: Arc<TransactionCommands>,
    pub(crate) threats: Arc<ThreatCommands>,
}

impl Commands {
    /// Carries one command out. Commands that change the farm wait for each other.
    pub(crate) async fn execute(&self, call: Call) -> Result<Table, CommandError> {
        self.context.tally.commands.fetch_add(1, Relaxed);
        let answer = self.execute_uncounted(&call).await;
        if let Err(error) = &answer {
            self.context.tally.commands_failed.fetch_add(1, Relaxed);
            tracing::debug!(command = %format_args!("{} {}", call.group, call.command), "{error}");
        }
        answer
    }

    async fn execute_uncounted(&self, call: &Call) -> Result<Table, CommandError> {
        if call.from_peer && call.group == GROUP {
            return self.answer_peer(call).await;
        }
        call.check()?;
        let spec = call.spec()?;
        let arguments = Arguments::resolve(spec, call)?;
        if spec.done_by == DoneBy::Every && !call.from_peer {
            return self.over_farm(spec.verb, &arguments, call).await;
        }
        if spec.done_by == DoneBy::Leader
            && let Some(answer) = self.peers.have_leader(call).await
        {
            return answer;
        }
        let _one_at_a_time = match spec.changes && !spec.verb.takes_turns() {
            true => Some(self.context.changing.lock().await),
            false => None,
        };
        for _ in 1..TRIES {
            // The farm itself changes records, too. The command reads and checks them anew.
            match self.dispatch(spec.verb, &arguments).await {
                Err(CommandError::Stale) => {}
                other => return other,
            }
        }
        self.dispatch(spec.verb, &arguments).await
    }

    /// A command that panics has failed.
    pub(crate) async fn execute_once(&self, call: Call) -> Result<Table, CommandError> {
        let name = format!("{} {}", call.group, call.command);
        caught(self.execute(call)).await.unwrap_or_else(|text| {
            self.context.tell_panic(&name, "", &text);
            Err(CommandError::Internal(format!("{name} panicked: {text}")))
        })
    }

    /// Carries out a command that changes nothing, for as long as somebody waits for its answer.
    pub(crate) async fn read_for(&self, call: Call, mut reply: oneshot::Sender<Answer>) {
        let answer = tokio::select! {
            biased;
            () = reply.closed() => return,
            answer = self.execute_once(call) => answer,
        };
        // The caller may have gone away; then nobody wants the answer.
        let _ = reply.send(answer);
    }

    /// Answers what only peers ask.
    pub(crate) async fn answer_peer(&self, call: &Call) -> Result<Table, CommandError> {
        match (call.command.as_str(), call.args.as_slice()) {
            (SESSIONS, []) => {
                self.background
                    .in_turn(|sessions| column(&sessions.list()))
                    .await?
            }
            (KILL, [text]) => {
                let kill: Kill = serde_json::from_str(text).map_err(|error| {
                    CommandError::Usage(format!("the KILL cannot be read: {error}"))
                })?;
                column(&[self.context.sessions.kill(&kill)])
            }
            (DRAINED, [job]) => column(&[self.reshard.is_drained(job).await]),
            (WRITES, [since]) => column(&self.client_writes.tell_writes(since).await?),
            (FACTS, []) => column(self.doctor.own_facts().await.as_slice()),
            (RELEASE, [account]) => column(&[self.permits.release_permits(account).await?]),
            (other, _) => Err(CommandError::Usage(format!(
                "this router knows no question {other:?} of peers; run one version everywhere"
            ))),
        }
    }

    /// Carries out a command whose arguments fit the table. One that changes the farm gets the right to.
    pub(crate) async fn dispatch(&self, verb: Verb, args: &Arguments) -> Answer {
        let lead = || self.context.leadership.must_lead();
        match verb {
            Verb::GroupCreate => self.groups.group_create(&lead()?, args).await,
            Verb::GroupDestroy => self.groups.group_destroy(&lead()?, args).await,
            Verb::GroupDescription => self.groups.group_description(&lead()?, args).await,
            Verb::GroupAdd => self.group_add(&lead()?, args).await,
            Verb::GroupRemove => self.groups.group_remove(&lead()?, args).await,
            Verb::GroupActivate => self.groups.group_set_active(&lead()?, args, true).await,
            Verb::GroupDeactivate => self.groups.group_set_active(&lead()?, args, false).await,
            Verb::GroupPromote => self.threats.group_promote(args).await,
            Verb::GroupDemote => self.threats.group_demote(args).await,
            Verb::ThreatReportError => self.threats.threat_report_error(args),
            Verb::ThreatReportFailure => self.threats.threat_report_failure(&lead()?, args).await,
            Verb::GroupHealth => self.inspect.group_health(args),
            Verb::GroupEvents => self.inspect.group_events(args),
            Verb::GroupFailovers => Ok(self.inspect.group_failovers(args)),
            Verb::GroupLookupServers => self.inspect.group_lookup_servers(args),
            Verb::ServerList => Ok(self.inspect.server_list()),
            Verb::GroupLookupGroups => self.inspect.group_lookup_groups(args),
            Verb::GroupImportTopology => self.groups.group_import_topology(args).await,
            Verb::ServerSetStatus => self.servers.server_set_status(&lead()?, args).await,
            Verb::ServerSetMode => self.servers.server_set_mode(&lead()?, args).await,
            Verb::ServerSetWeight => self.servers.server_set_weight(&lead()?, args).await,
            Verb::ServerAcceptCertificate => self.servers.accept_certificate(&lead()?, args).await,
            Verb::ServerLookupUuid => self.servers.server_lookup_uuid(args),
            Verb::ServerClone => self.servers.server_clone(args).await,
            Verb::JobList => Ok(self.moves.job_list()),
            Verb::JobShow => self.moves.job_show(args),
            Verb::JobAbort => self.moves.job_abort(args).await,
            Verb::JobPause => self.moves.job_pause(&lead()?, args).await,
            Verb::JobResume => self.moves.job_resume(&lead()?, args).await,
            Verb::KvCreate => self.kv.kv_create(&lead()?, args).await,
            Verb::KvDrop => self.kv.kv_drop(&lead()?, args).await,
            Verb::KvList => Ok(self.kv.kv_list()),
            Verb::KvCache => Ok(self.kv.kv_cache()),
            Verb::DumpServers => self.dumps.dump_servers(args),
            Verb::DumpFabricNodes => self.dumps.dump_fabric_nodes(args),
            Verb::MetaExport => self.routers.meta_export().await,
            Verb::ConfigShow => self.config.config_show(args).await,
            Verb::ConfigDiff => self.config.config_diff(args).await,
            Verb::ConfigHistory => self.config.config_history(args).await,
            Verb::ConfigSet => self.config.config_set(args).await,
            Verb::ConfigRollback => self.config.config_rollback(args).await,
            Verb::ConfigSettings => Ok(self.config.config_settings()),
            Verb::ConfigRules => Ok(self.config.config_rules()),
            Verb::TransactionList => Ok(self.transactions.transaction_list()),
            Verb::TransactionResolve => self.transactions.transaction_resolve(args).await,
            Verb::SessionList => self.inspect.session_list().await,
            Verb::OfStreams(verb) => self.streams.carry_out(verb, args).await,
            Verb::StatisticsList => Ok(self.inspect.statistics_list(args)),
            Verb::DigestList => digest::list(&self.background, args).await,
            Verb::DigestShow => digest::show(&self.background, args).await,
            Verb::DigestReset => digest::reset(&self.background).await,
            Verb::TraceDump => router::dump_trace(&self.background).await,
            Verb::SessionKill => self.inspect.session_kill(args).await,
            Verb::RouterList => Ok(self.routers.router_list()),
            Verb::RotateAuthority => self.routers.rotate_authority(&lead()?).await,
            Verb::ManagePing => self.inspect.manage_ping(),
            Verb::ManageDoctor => self.doctor.manage_doctor(args).await,
            Verb::ManageMend => self.doctor.manage_mend(&lead()?, args).await,
            Verb::ManageHelp => self.inspect.manage_help(args),
            Verb::OfMaps(verb) => Box::pin(self.dispatch_to_maps(verb, args)).await,
        }
    }

    async fn group_add(&self, lead: &Lead, args: &Arguments) -> Result<Table, CommandError> {
        let added = self.groups.group_add(lead, args).await;
        added.inspect(|_| self.doctor.tell_joined())
    }

    /// Carries out a command about maps, shards and their tables.
    pub(super) async fn dispatch_to_maps(
        &self,
        verb: MapVerb,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let lead = || self.context.leadership.must_lead();
        match verb {
            MapVerb::DumpShardMaps => Ok(self.dumps.dump_shard_maps(args)),
            MapVerb::DumpShardIndex => Ok(self.dumps.dump_shard_index(args)),
            MapVerb::DumpShardTables => Ok(self.dumps.dump_shard_tables(args)),
            MapVerb::DumpShardingInformation => Ok(self.dumps.dump_sharding_information(args)),
            MapVerb::CreateDefinition => self.maps.create_definition(&lead()?, args).await,
            MapVerb::RemoveDefinition => self.maps.remove_definition(&lead()?, args).await,
            MapVerb::ListDefinitions => Ok(self.maps.list_definitions()),
            MapVerb::AddShard => self.maps.add_shard(&lead()?, args).await,
            MapVerb::ListShards => self.maps.list_shards(args),
            MapVerb::ListSizes => self.maps.list_sizes(args).await,
            MapVerb::EnableShard => self.maps.set_shard(&lead()?, args, true).await,
            MapVerb::DisableShard => self.maps.set_shard(&lead()?, args, false).await,
            MapVerb::RemoveShard => self.maps.remove_shard(&lead()?, args).await,
            MapVerb::AddTable => self.maps.add_table(&lead()?, args).await,
            MapVerb::AddGlobalTable => self.maps.add_global_table(&lead()?, args).await,
            MapVerb::RemoveTable => self.maps.remove_table(&lead()?, args).await,
            MapVerb::LookupTable => self.maps.lookup_table(args),
            MapVerb::ListTables => self.maps.list_tables(args),
            MapVerb::ShardServers => self.maps.shard_servers(args),
            MapVerb::PruneShard => self.maps.prune_shard(&lead()?, args).await,
            MapVerb::MoveShard => self.moves.move_shard(&lead()?, args).await,
            MapVerb::SplitShard => self.moves.split_shard(&lead()?, args).await,
            MapVerb::MergeShards => self.moves.merge_shards(&lead()?, args).await,
            MapVerb::AssignDatabase => self.maps.assign_database(&lead()?, args).await,
            MapVerb::VerifyShards => self.maps.verify(args).await,
            MapVerb::RefreshTables => self.maps.refresh(args).await,
            MapVerb::AddChange => self.maps.add_change(&lead()?, args).await,
            MapVerb::DropChange => self.maps.drop_change(&lead()?, args).await,
            MapVerb::ListChanges => Ok(self.maps.list_changes()),
            MapVerb::Advise => {
                let counted = self.counted_everywhere().await?;
                self.maps.advise(&self.background, counted).await
            }
            MapVerb::ResumeChange => self.maps.resume_change(args).await,
        }
    }
}
