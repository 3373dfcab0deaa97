//! Orders to a probe and its answers; the operations and samples that histories keep.

use crate::{HalfSeen, HalfWatch, Id, SocketsSeen, StreamRecord};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};

/// One line to a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToProbe {
    /// Echoed in the answer.
    pub id: Id,
    /// What to do.
    pub order: ProbeOrder,
}

/// One line from a probe. Orders run concurrently: answers come in the order in which they end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FromProbe {
    /// Id of the order that this answers.
    pub id: Id,
    /// What was measured, or what went wrong (object and cause).
    pub result: Result<ProbeAnswer, String>,
}

/// An order to a probe. Each order that talks to a server opens its own connection, with TCP_NODELAY set and
/// read back from the socket, and closes it at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProbeOrder {
    /// Say who you are.
    Hello,
    /// Round trips to the echo responder of another probe ([`ECHO_PORT`]): the link measured without any server. The
    /// outcome of a sample is the stamp of the far end, so each way can be told apart.
    Echo {
        /// Far probe.
        target: Ipv4Addr,
        /// Datagrams, or messages on one connection.
        transport: Transport,
        /// Round trips before the counted ones.
        warmup: u32,
        /// Round trips counted.
        count: u32,
        /// Pause between two.
        pause_ns: u64,
        /// A reply that took longer is lost.
        timeout_ns: u64,
    },
    /// Small stamped datagrams to other probes at a fixed interval, and a list of those that came from others, until
    /// [`ProbeOrder::Stop`]: each direction of a link watched by itself while something else is measured.
    Beacons {
        /// Far probes.
        targets: Vec<Ipv4Addr>,
        /// Between two to the same target.
        interval_ns: u64,
    },
    /// End a running order (`Beacons`, and what else can be ended early); it then gives its answer.
    Stop {
        /// Its id.
        order: Id,
    },
    /// How late this host wakes a process: sleeps of a fixed length, each a sample from its start to its end.
    Sleeps {
        /// Length of one.
        sleep_ns: u64,
        /// How many.
        count: u32,
    },
    /// Processor time of the whole host, as /proc/stat counts it.
    Cpu,
    /// The kernel's list of connections in the network of the probe's container.
    Sockets,
    /// Take in what other probes send to [`SINK_PORT`](crate::SINK_PORT), connections and datagrams, and throw it away.
    /// It is ready when it announces [`ProbeAnswer::Watching`].
    Sink {
        /// How long.
        for_ns: u64,
    },
    /// Send to the sink of another probe: the link under load, without any server.
    Bulk(Bulk),
    /// Open connections without TCP_NODELAY from now on, or with it again: a negative control.
    Sabotage {
        /// Whether TCP_NODELAY is left out.
        no_nodelay: bool,
    },
    /// Commands to a Redis or Valkey server, one after the other on one connection, each waiting for its reply.
    Redis {
        /// The server.
        target: SocketAddrV4,
        /// Commands with arguments.
        commands: Vec<Vec<String>>,
        /// Limit of the connection and of each reply.
        timeout_ns: u64,
    },
    /// The same operation again and again on one or more connections, timed one by one.
    Load(Load),
    /// Write numbered keys `<prefix><i>`, i from 0, and keep a ledger of what was acknowledged.
    Ledger {
        /// The server.
        target: SocketAddrV4,
        /// Key prefix.
        prefix: String,
        /// Number of keys.
        count: u32,
        /// Bytes of each value; the value starts with `<i>:`.
        value_bytes: u32,
        /// Closed loop or open loop.
        pace: Pace,
        /// Limit of the connection and of each reply.
        timeout_ns: u64,
    },
    /// Read numbered keys `<prefix><i>`, i from 0, and say which exist with the value that the ledger wrote.
    Audit {
        /// The server.
        target: SocketAddrV4,
        /// Key prefix.
        prefix: String,
        /// Number of keys.
        count: u32,
        /// Limit of the connection and of each reply.
        timeout_ns: u64,
    },
    /// Ask a primary for bytes of its replication stream that it has already written, as a replica that lacks exactly
    /// these would: `PSYNC <stream> <first_byte>`. The primary sees a replica for that long.
    Backlog {
        /// The primary.
        target: SocketAddrV4,
        /// Id of the stream (`master_replid`).
        stream: String,
        /// Number of the first byte wanted: the offset that was reached, and one.
        first_byte: u64,
        /// How many; none only asks whether it would continue there.
        bytes: u64,
        /// Limit of the connection and of the whole.
        timeout_ns: u64,
    },
    /// Poll `key` of a replica until it holds each of the values `1..=count`, and stamp when each is first seen.
    /// Answers after the last one or at the deadline. `ready` is announced by a first answer [`ProbeAnswer::Watching`].
    Poll {
        /// The replica.
        target: SocketAddrV4,
        /// The key.
        key: String,
        /// Last value waited for.
        count: u32,
        /// Pause between two polls (0: none).
        pause_ns: u64,
        /// Give up after this.
        deadline_ns: u64,
    },
    /// Subscribe to the keyspace events of `key` on a replica and stamp each event: visibility without the
    /// granularity of a poll. `ready` is announced by a first answer [`ProbeAnswer::Watching`].
    Watch {
        /// The replica; needs `notify-keyspace-events` with `K` and `$`.
        target: SocketAddrV4,
        /// The key.
        key: String,
        /// Events to wait for.
        count: u32,
        /// Give up after this.
        deadline_ns: u64,
    },
    /// Ask the nodes of a half of a cluster again and again; announced by [`ProbeAnswer::Watching`], ended by [`ProbeOrder::Stop`].
    Half(HalfWatch),
    /// SQL without parameters or results that matter, e.g. to make a table.
    PostgresBatch {
        /// The server.
        target: SocketAddrV4,
        /// Statements, `;` between them.
        sql: String,
        /// Limit of the connection and of the batch.
        timeout_ns: u64,
    },
    /// One query whose first column of the first row is returned as text.
    PostgresQuery {
        /// The server.
        target: SocketAddrV4,
        /// The query; its first column must be text.
        sql: String,
        /// Limit of the connection and of the query.
        timeout_ns: u64,
    },
}

/// Bytes to send, for their number and not for their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Probe whose sink takes them.
    pub target: Ipv4Addr,
    /// Datagrams, or connections.
    pub transport: Transport,
    /// Sockets, each with its own thread.
    pub sockets: u32,
    /// Bytes of one write; of one datagram.
    pub message_bytes: u32,
    /// Messages in a second, over all sockets (`None`: as many as the kernel takes). Late ones are made good, so that
    /// the mean holds.
    pub per_s: Option<u32>,
    /// How long.
    pub for_ns: u64,
}

/// What a sink took in or a bulk order sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// Bytes, headers not counted.
    pub bytes: u64,
    /// Messages sent; of those taken in only datagrams, since a connection has no bounds of messages.
    pub messages: u64,
    /// Begin of the first write, or when the first bytes had come (0: none).
    pub first_ns: u64,
    /// End of the last write, or when the last bytes had come.
    pub last_ns: u64,
}

/// A repeated, timed operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The server.
    pub target: SocketAddrV4,
    /// What is timed.
    pub operation: Operation,
    /// Connections, each with its own loop; `count` is split between them.
    pub connections: u32,
    /// Operations before the counted ones, on each connection.
    pub warmup: u32,
    /// Operations counted, over all connections; with `for_ns`, at most so many.
    pub count: u32,
    /// Stop after this time even if `count` is not reached (`None`: only `count` ends it).
    pub for_ns: Option<u64>,
    /// Closed loop or open loop.
    pub pace: Pace,
    /// Limit of the connection and of each reply.
    pub timeout_ns: u64,
}

/// When the next operation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// When the one before has been answered, after a pause.
    Closed {
        /// The pause (0: none).
        pause_ns: u64,
    },
    /// At fixed intervals over all connections, whatever the server does; the intended start is kept beside the
    /// actual one.
    Open {
        /// Interval between two intended starts.
        interval_ns: u64,
    },
}

/// A timed operation. Keys are `<key><i>`: i counts the operations of the order, modulo `keys` where given; with
/// n connections, connection c performs c, c + n, c + 2n...
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// PING.
    Ping,
    /// GET of `<key><(i * stride) mod keys>`; an absent key is an error.
    Get {
        /// Key prefix.
        key: String,
        /// Number of keys.
        keys: u32,
        /// Step.
        stride: u32,
    },
    /// SET of `<key><i mod keys>`.
    Set {
        /// Key prefix.
        key: String,
        /// Number of keys.
        keys: u32,
        /// Size of the value.
        value_bytes: u32,
    },
    /// SET of one key to the ascending number i + 1 (what [`ProbeOrder::Poll`] looks for). Its warm-up writes
    /// `<key>:warmup` instead, which nobody watches.
    SetNumber {
        /// The key.
        key: String,
    },
    /// SET, and after its reply WAIT on the same connection; the outcome is the number that WAIT returned.
    SetWait {
        /// Key prefix.
        key: String,
        /// Number of keys.
        keys: u32,
        /// Size of the value.
        value_bytes: u32,
        /// Replicas to wait for.
        replicas: u32,
        /// WAIT's own timeout, milliseconds as the command takes it (0: for ever).
        wait_timeout_ms: u64,
    },
    /// A TCP connection opened; it is closed, untimed, before the next.
    Connect,
    /// So many PINGs written one by one with a pause between, without waiting; ends with the last reply.
    Messages {
        /// How many.
        count: u32,
        /// Pause between two writes.
        pause_ns: u64,
    },
    /// MULTI, so many SETs of `<key>0`..., EXEC: waiting for each reply, or all written at once.
    Multi {
        /// Key prefix.
        key: String,
        /// Number of SETs.
        sets: u32,
        /// Written at once.
        pipelined: bool,
    },
    /// `PSYNC ? -1` on an open connection, until its first reply; a new connection, untimed, for each. Replicas' own
    /// timers are not in it; the server's `repl-diskless-sync-delay` would be, so it has to be 0.
    Psync,
    /// A Postgres session opened until the server is ready for a query; it is closed, untimed, before the next.
    PostgresConnect {
        /// Role.
        user: String,
        /// Password, if the server asks for one.
        password: Option<String>,
        /// Database.
        database: String,
    },
    /// Prepared `sql` with one integer parameter, `(i * stride) mod keys`; exactly one row is expected.
    PostgresRead {
        /// The statement, with `$1`.
        sql: String,
        /// Number of keys.
        keys: u32,
        /// Step.
        stride: u32,
    },
}

/// What carries a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// One connection with TCP_NODELAY.
    Tcp,
}

/// A beacon that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Beacon {
    /// Probe that sent it.
    pub from: Ipv4Addr,
    /// When it should have been sent, CLOCK_MONOTONIC of the sender.
    pub intended_ns: u64,
    /// When it was.
    pub sent_ns: u64,
    /// When it was received, CLOCK_MONOTONIC of the receiver: on one engine the same clock.
    pub received_ns: u64,
}

/// Processor time of a host since its start, over all cores, in ticks of which there are 100 in a second of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuSeen {
    /// Cores.
    pub cores: u32,
    /// Used by processes, kernel and interrupts.
    pub busy_ticks: u64,
    /// Idle, and waiting for disks.
    pub idle_ticks: u64,
    /// Taken by the hypervisor.
    pub steal_ticks: u64,
}

/// One operation. Times are CLOCK_MONOTONIC of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// When it should have started (closed loop: when it did).
    pub intended_ns: u64,
    /// When it started.
    pub started_ns: u64,
    /// When its answer had been read; for a seen value or event, when it was seen.
    pub ended_ns: u64,
    /// Operation's own result: WAIT's number, the value seen, the echo's far stamp; 0 where it has none.
    pub outcome: i64,
}

/// What became of one write of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Number of the key.
    pub i: u32,
    /// When the write was sent.
    pub sent_ns: u64,
    /// When it was acknowledged (`None`: an error or no answer).
    pub acknowledged_ns: Option<u64>,
}

/// Reply of a Redis or Valkey server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Null.
    Nil,
    /// Integer.
    Integer(i64),
    /// Simple or bulk string (lossy UTF-8).
    Text(String),
    /// Array (or map, flattened).
    Array(Vec<Reply>),
    /// Error reply, whole text.
    Error(String),
}

/// Answer of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAnswer {
    /// To `Hello`.
    Hello {
        /// Version of the probe's package.
        version: String,
        /// Now, by the probe's clock.
        now_ns: u64,
    },
    /// First answer to `Poll`, `Watch`, `Half` and `Sink`: from now on values are seen. A second answer follows. It is left out if
    /// nothing could be seen at all before the end.
    Watching,
    /// To `Echo`, `Load`, `Poll`, `Watch` and `Sleeps`.
    Samples {
        /// In order of their start.
        samples: Vec<Sample>,
        /// Operations that failed or were lost: cause and how often.
        failures: Vec<Failure>,
        /// TCP_NODELAY as read back from the socket (`None`: not TCP).
        nodelay: Option<bool>,
    },
    /// To `Redis`: one reply per command.
    Replies(Vec<Reply>),
    /// To `Ledger`.
    Ledger {
        /// One per key that was sent, in order: fewer than ordered if the connection broke.
        writes: Vec<Written>,
        /// First error met, if any.
        error: Option<String>,
        /// TCP_NODELAY as read back from the socket.
        nodelay: bool,
    },
    /// To `Audit`: numbers of the keys that exist with the right value.
    Present(Vec<u32>),
    /// To `Backlog`: every record from the first byte on. Their lengths add up to the bytes asked for.
    Records(Vec<StreamRecord>),
    /// To `Beacons`.
    Beacons {
        /// Those that were sent: target, when it should have been, when it was.
        sent: Vec<(Ipv4Addr, u64, u64)>,
        /// Those that came in.
        heard: Vec<Beacon>,
    },
    /// To `Sockets`.
    Sockets(SocketsSeen),
    /// To `Cpu`.
    Cpu(CpuSeen),
    /// To `Sink` and `Bulk`.
    Carried(Carried),
    /// To `Half`.
    Half(HalfSeen),
    /// To `PostgresBatch`, `Stop` and `Sabotage`.
    Done,
    /// To `PostgresQuery`.
    Text(String),
}

/// Operations that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// Error text.
    pub cause: String,
    /// How often.
    pub times: u32,
}
