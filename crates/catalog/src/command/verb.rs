//! What carries commands out, and which router does.

/// Which router carries a command out. A row of the command table has no default for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoneBy {
    /// The router that is asked.
    Asked,
    /// The leader, whichever router is asked: one router makes all changes of servers and of the farm,
    /// one after the other.
    Leader,
    /// All routers answer, each for itself.
    Every,
}

/// What carries a command out. `Control::dispatch` matches it without a last arm that takes the rest,
/// so a verb that nothing carries out does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
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
    GroupFailovers,
    GroupLookupServers,
    GroupLookupGroups,
    GroupImportTopology,
    ServerList,
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
    OfMaps(MapVerb),
    ThreatReportError,
    ThreatReportFailure,
    TransactionList,
    TransactionResolve,
    SessionList,
    SessionKill,
    OfStreams(StreamVerb),
    StatisticsList,
    DigestList,
    DigestShow,
    DigestReset,
    TraceDump,
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
    ManageMend,
    ManageHelp,
}

/// The verbs about shard maps and the tables on them. `Control::dispatch_to_maps` matches them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapVerb {
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
    MergeShards,
    AssignDatabase,
    LookupTable,
    ListTables,
    ListDefinitions,
    ListShards,
    ListSizes,
    ShardServers,
    VerifyShards,
    RefreshTables,
    Advise,
    AddChange,
    DropChange,
    ListChanges,
    ResumeChange,
    DumpShardMaps,
    DumpShardIndex,
    DumpShardTables,
    DumpShardingInformation,
}

/// The verbs about subscriptions to the change stream, and its sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamVerb {
    CreateSubscription,
    ListSubscriptions,
    ShowSubscription,
    DropSubscription,
    Acknowledge,
    CreateSink,
    ListSinks,
    ShowSink,
    PauseSink,
    ResumeSink,
    ListLetters,
    ResendLetters,
    DiscardLetters,
    DropSink,
}

impl Verb {
    /// Of an answer by all routers, the column in which it is said that one gave none.
    pub fn note_column(self) -> &'static str {
        match self {
            Verb::StatisticsList => "name",
            Verb::DigestList | Verb::DigestShow => "text",
            Verb::DigestReset => "rows",
            _ => "state",
        }
    }

    /// It may take hours, so it does not keep other commands waiting: it takes turns by itself.
    pub fn takes_turns(self) -> bool {
        matches!(
            self,
            Verb::GroupAdd
                | Verb::ServerClone
                | Verb::JobAbort
                | Verb::JobPause
                | Verb::JobResume
                | Verb::OfMaps(MapVerb::MoveShard)
                | Verb::OfMaps(MapVerb::SplitShard)
                | Verb::OfMaps(MapVerb::MergeShards)
                | Verb::TransactionResolve
                | Verb::OfStreams(StreamVerb::CreateSubscription)
                | Verb::OfStreams(StreamVerb::Acknowledge)
                | Verb::OfStreams(StreamVerb::CreateSink)
                | Verb::OfMaps(MapVerb::AddChange)
                | Verb::OfMaps(MapVerb::DropChange)
        )
    }
}
