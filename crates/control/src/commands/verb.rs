//! What carries commands out, and who may: each router, or the one that leads.

/// What carries a command out; the dispatch is exhaustive over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    GroupCreate,
    GroupDestroy,
    GroupDescription,
    GroupAdd,
    GroupRemove,
    GroupActivate,
    GroupDeactivate,
    GroupPromote,
    GroupDemote,
    GroupHealth,
    GroupEvents,
    GroupLookupServers,
    GroupLookupGroups,
    ServerSetStatus,
    ServerSetMode,
    ServerSetWeight,
    ServerAcceptCertificate,
    ServerLookupUuid,
    ServerClone,
    JobList,
    JobShow,
    JobAbort,
    JobPause,
    JobResume,
    KvCreate,
    KvDrop,
    KvList,
    KvCache,
    DumpServers,
    DumpFabricNodes,
    CreateDefinition,
    RemoveDefinition,
    AddTable,
    AddGlobalTable,
    RemoveTable,
    AddShard,
    EnableShard,
    DisableShard,
    RemoveShard,
    PruneShard,
    MoveShard,
    SplitShard,
    AssignDatabase,
    LookupTable,
    ListTables,
    ListDefinitions,
    ListShards,
    ShardServers,
    VerifyShards,
    RefreshTables,
    AddChange,
    DropChange,
    ListChanges,
    ResumeChange,
    DumpShardMaps,
    DumpShardIndex,
    DumpShardTables,
    DumpShardingInformation,
    ThreatReportError,
    ThreatReportFailure,
    TransactionList,
    TransactionResolve,
    SessionList,
    SessionKill,
    StatisticsList,
    ConfigShow,
    MetaExport,
    RouterList,
    RotateAuthority,
    ConfigDiff,
    ConfigHistory,
    ConfigSet,
    ConfigRollback,
    ConfigSettings,
    ConfigRules,
    ManagePing,
    ManageDoctor,
    ManageHelp,
}

impl Verb {
    /// All routers answer it, each for itself.
    pub(crate) fn is_farm_wide(self) -> bool {
        matches!(self, Verb::SessionList | Verb::StatisticsList)
    }

    /// Of an answer by all routers, the column in which it is said that one gave none.
    pub(crate) fn note_column(self) -> &'static str {
        match self {
            Verb::StatisticsList => "name",
            _ => "state",
        }
    }

    /// Only the leader does it, so that all that changes servers or the farm is done by one router,
    /// one after the other.
    pub(crate) fn is_leaders(self) -> bool {
        match self {
            Verb::GroupCreate
            | Verb::GroupDestroy
            | Verb::GroupDescription
            | Verb::GroupAdd
            | Verb::GroupRemove
            | Verb::GroupActivate
            | Verb::GroupDeactivate
            | Verb::GroupPromote
            | Verb::GroupDemote
            | Verb::ServerSetStatus
            | Verb::ServerSetMode
            | Verb::ServerSetWeight
            | Verb::ServerAcceptCertificate
            | Verb::ServerClone
            | Verb::JobPause
            | Verb::JobResume
            | Verb::KvCreate
            | Verb::KvDrop
            | Verb::ConfigSet
            | Verb::ConfigRollback
            | Verb::ThreatReportError
            | Verb::ThreatReportFailure
            | Verb::RotateAuthority => true,
            Verb::GroupHealth
            | Verb::GroupEvents
            | Verb::GroupLookupServers
            | Verb::GroupLookupGroups
            | Verb::ServerLookupUuid
            | Verb::JobList
            | Verb::JobShow
            | Verb::JobAbort
            | Verb::KvList
            | Verb::KvCache
            | Verb::TransactionList
            | Verb::TransactionResolve
            | Verb::DumpServers
            | Verb::DumpFabricNodes
            | Verb::SessionList
            | Verb::SessionKill
            | Verb::StatisticsList
            | Verb::ConfigShow
            | Verb::MetaExport
            | Verb::RouterList
            | Verb::ConfigDiff
            | Verb::ConfigHistory
            | Verb::ConfigSettings
            | Verb::ConfigRules
            | Verb::ManagePing
            | Verb::ManageDoctor
            | Verb::ManageHelp => false,
            of_maps => of_maps.changes_maps(),
        }
    }

    /// Those about shard maps.
    fn changes_maps(self) -> bool {
        matches!(
            self,
            Verb::CreateDefinition
                | Verb::RemoveDefinition
                | Verb::AddTable
                | Verb::AddGlobalTable
                | Verb::RemoveTable
                | Verb::AddShard
                | Verb::EnableShard
                | Verb::DisableShard
                | Verb::RemoveShard
                | Verb::PruneShard
                | Verb::MoveShard
                | Verb::SplitShard
                | Verb::AssignDatabase
                | Verb::AddChange
                | Verb::DropChange
                | Verb::ResumeChange
        )
    }

    /// It may take hours, so it does not keep other commands waiting: it takes turns by itself.
    pub(crate) fn takes_turns(self) -> bool {
        matches!(
            self,
            Verb::GroupAdd
                | Verb::ServerClone
                | Verb::JobAbort
                | Verb::JobPause
                | Verb::JobResume
                | Verb::MoveShard
                | Verb::SplitShard
                | Verb::TransactionResolve
                | Verb::AddChange
                | Verb::DropChange
        )
    }
}
