use serde::Serialize;

/// What became of launch times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Launches {
    /// Packets whose departure was stamped: that is their actual send time.
    pub stamped: u64,
    /// Packets of which only the launch time asked for is known; it stands for their send time.
    pub asked_only: u64,
    /// The least time from launch time to departure, ns; negative where one left before it. Null where none was
    /// stamped.
    pub earliest_ns: Option<i64>,
}
