//! What goes wrong in a round, by name.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nemesis {
    /// Nothing: what clients see anyway.
    Calm,
    /// Nothing but twice as many busy threads as the machine has cores, for `FULL_LOAD_MINUTES`
    /// (a twentieth by default): nobody may be taken for dead.
    FullLoad,
    /// kill -9 of the primary.
    Kill,
    /// SIGSTOP of the primary for 5 s.
    Stop,
    /// kill -9 of a replica.
    ReplicaDeath,
    /// kill -9 of `heddle up`, which is started again.
    RouterRestart,
    /// kill -9 of the primary, and of a replica while one of them is being promoted.
    KillDuringPromotion,
    /// kill -9 of the primary, and of its successor as soon as that has taken writes.
    TwoDeaths,
    /// `heddle group promote`.
    SwitchOver,
    /// No packet reaches the primary or comes from it, for 5 s. Needs servers behind relays.
    Cut,
    /// No packet reaches the primary.
    CutTo,
    /// No packet comes from the primary.
    CutFrom,
    /// The primary's disk is full until it has a successor, or for 15 s. Needs small disks.
    FullDisk,
    /// kill -9 of the router that leads.
    LeaderDeath,
    /// kill -9 of another router.
    FollowerDeath,
    /// kill -9 of the primary and of the router that leads, in the same moment.
    LeaderAndPrimary,
    /// kill -9 of the primary, and of the router that leads within 200 ms.
    LeaderDuringFailover,
    /// kill -9 of the primary, and of another router within 200 ms.
    FollowerDuringFailover,
    /// SIGSTOP of the router that leads for longer than its lease.
    LeaderPaused,
    /// kill -9 of the primary, and SIGSTOP of the router that leads within 200 ms, for longer than its lease.
    PausedDuringFailover,
    /// kill -9 of a member of the store that does not lead it.
    EtcdMember,
    /// kill -9 of the member that leads the store.
    EtcdLeader,
    /// kill -9 of the primary, and of the member that leads the store within 100 ms.
    EtcdDuringFailover,
    /// kill -9 of every member of the store, which stay away for 5 s.
    EtcdGone,
    /// SIGTERM of one router after the other, each started again, for clients with a pool.
    RollingRestart,
    /// `heddle group promote` at a router that does not lead.
    Forwarded,
    /// No packet passes, one way or both, between the router that leads and the store. Needs a network.
    LeaderFromEtcd,
    /// The same between another router and the store.
    FollowerFromEtcd,
    /// Between the router that leads and the primary.
    LeaderFromPrimary,
    /// Between another router and the primary.
    FollowerFromPrimary,
    /// Between the router that leads and the others.
    RoutersApart,
    /// Between a replica and the primary.
    ReplicaFromPrimary,
    /// Between the member that leads the store and the others.
    EtcdApart,
    /// Between the router that leads and the store, the servers and the other routers.
    LeaderAlone,
    /// Between the primary and everybody but its direct clients.
    PrimaryAlone,
    /// The router that leads is cut off from the store in the moment when the primary is killed.
    CutAndKill,
}

impl Nemesis {
    pub const ALL: [Nemesis; 36] = [
        Nemesis::Calm,
        Nemesis::FullLoad,
        Nemesis::Kill,
        Nemesis::Stop,
        Nemesis::ReplicaDeath,
        Nemesis::RouterRestart,
        Nemesis::KillDuringPromotion,
        Nemesis::TwoDeaths,
        Nemesis::SwitchOver,
        Nemesis::Cut,
        Nemesis::CutTo,
        Nemesis::CutFrom,
        Nemesis::FullDisk,
        Nemesis::LeaderDeath,
        Nemesis::FollowerDeath,
        Nemesis::LeaderAndPrimary,
        Nemesis::LeaderDuringFailover,
        Nemesis::FollowerDuringFailover,
        Nemesis::LeaderPaused,
        Nemesis::PausedDuringFailover,
        Nemesis::EtcdMember,
        Nemesis::EtcdLeader,
        Nemesis::EtcdDuringFailover,
        Nemesis::EtcdGone,
        Nemesis::RollingRestart,
        Nemesis::Forwarded,
        Nemesis::LeaderFromEtcd,
        Nemesis::FollowerFromEtcd,
        Nemesis::LeaderFromPrimary,
        Nemesis::FollowerFromPrimary,
        Nemesis::RoutersApart,
        Nemesis::ReplicaFromPrimary,
        Nemesis::EtcdApart,
        Nemesis::LeaderAlone,
        Nemesis::PrimaryAlone,
        Nemesis::CutAndKill,
    ];

    /// Those that every `heddle up` can go through.
    pub const ON_ANY_FARM: [Nemesis; 9] = [
        Nemesis::Calm,
        Nemesis::FullLoad,
        Nemesis::Kill,
        Nemesis::Stop,
        Nemesis::ReplicaDeath,
        Nemesis::RouterRestart,
        Nemesis::KillDuringPromotion,
        Nemesis::TwoDeaths,
        Nemesis::SwitchOver,
    ];

    /// Those of farms behind relays.
    pub const OF_NETWORKS: [Nemesis; 3] = [Nemesis::Cut, Nemesis::CutTo, Nemesis::CutFrom];

    /// Those of several routers.
    pub const OF_ROUTERS: [Nemesis; 18] = [
        Nemesis::Calm,
        Nemesis::Kill,
        Nemesis::Stop,
        Nemesis::SwitchOver,
        Nemesis::ReplicaDeath,
        Nemesis::LeaderDeath,
        Nemesis::FollowerDeath,
        Nemesis::LeaderAndPrimary,
        Nemesis::LeaderDuringFailover,
        Nemesis::FollowerDuringFailover,
        Nemesis::LeaderPaused,
        Nemesis::PausedDuringFailover,
        Nemesis::EtcdMember,
        Nemesis::EtcdLeader,
        Nemesis::EtcdDuringFailover,
        Nemesis::EtcdGone,
        Nemesis::RollingRestart,
        Nemesis::Forwarded,
    ];

    /// Those of several routers on hosts of their own.
    pub const OF_PARTITIONS: [Nemesis; 10] = [
        Nemesis::LeaderFromEtcd,
        Nemesis::FollowerFromEtcd,
        Nemesis::LeaderFromPrimary,
        Nemesis::FollowerFromPrimary,
        Nemesis::RoutersApart,
        Nemesis::ReplicaFromPrimary,
        Nemesis::EtcdApart,
        Nemesis::LeaderAlone,
        Nemesis::PrimaryAlone,
        Nemesis::CutAndKill,
    ];

    /// The name in tables and in the environment.
    pub fn name(self) -> &'static str {
        match self {
            Nemesis::Calm => "calm",
            Nemesis::FullLoad => "full-load",
            Nemesis::Kill => "kill",
            Nemesis::Stop => "stop",
            Nemesis::ReplicaDeath => "replica-death",
            Nemesis::RouterRestart => "router-restart",
            Nemesis::KillDuringPromotion => "kill-during-promotion",
            Nemesis::TwoDeaths => "two-deaths",
            Nemesis::SwitchOver => "switch-over",
            Nemesis::Cut => "cut",
            Nemesis::CutTo => "cut-to-primary",
            Nemesis::CutFrom => "cut-from-primary",
            Nemesis::FullDisk => "full-disk",
            Nemesis::LeaderDeath => "leader-death",
            Nemesis::FollowerDeath => "follower-death",
            Nemesis::LeaderAndPrimary => "leader-and-primary",
            Nemesis::LeaderDuringFailover => "leader-during-failover",
            Nemesis::FollowerDuringFailover => "follower-during-failover",
            Nemesis::LeaderPaused => "leader-paused",
            Nemesis::PausedDuringFailover => "paused-during-failover",
            Nemesis::EtcdMember => "etcd-member",
            Nemesis::EtcdLeader => "etcd-leader",
            Nemesis::EtcdDuringFailover => "etcd-during-failover",
            Nemesis::EtcdGone => "etcd-gone",
            Nemesis::RollingRestart => "rolling-restart",
            Nemesis::Forwarded => "forwarded-switch-over",
            Nemesis::LeaderFromEtcd => "leader-from-etcd",
            Nemesis::FollowerFromEtcd => "follower-from-etcd",
            Nemesis::LeaderFromPrimary => "leader-from-primary",
            Nemesis::FollowerFromPrimary => "follower-from-primary",
            Nemesis::RoutersApart => "routers-apart",
            Nemesis::ReplicaFromPrimary => "replica-from-primary",
            Nemesis::EtcdApart => "etcd-apart",
            Nemesis::LeaderAlone => "leader-alone",
            Nemesis::PrimaryAlone => "primary-alone",
            Nemesis::CutAndKill => "cut-and-kill",
        }
    }

    /// The fault of this name.
    pub fn named(name: &str) -> Option<Nemesis> {
        Nemesis::ALL.into_iter().find(|one| one.name() == name)
    }

    /// True where the primary of the beginning is the only one.
    pub fn keeps_primary(self) -> bool {
        matches!(
            self,
            Nemesis::Calm
                | Nemesis::FullLoad
                | Nemesis::ReplicaDeath
                | Nemesis::LeaderDeath
                | Nemesis::FollowerDeath
                | Nemesis::LeaderPaused
                | Nemesis::EtcdMember
                | Nemesis::EtcdLeader
                | Nemesis::EtcdGone
                | Nemesis::RollingRestart
                | Nemesis::LeaderFromEtcd
                | Nemesis::FollowerFromEtcd
                | Nemesis::LeaderFromPrimary
                | Nemesis::FollowerFromPrimary
                | Nemesis::RoutersApart
                | Nemesis::EtcdApart
                | Nemesis::LeaderAlone
        )
    }
}
