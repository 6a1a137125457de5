//! What the caller asked for: definitions of jobs.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// What the caller asked for: one job, as normalised at creation.
#[derive(Clone, PartialEq, Message)]
pub struct Definition {
    /// Tenant; empty is `default`.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The caller's own name, unique in the namespace.
    #[prost(string, tag = "2")]
    pub key: String,
    /// Group within the namespace.
    #[prost(string, tag = "3")]
    pub group: String,
    /// Who owns it.
    #[prost(string, tag = "4")]
    pub owner: String,
    /// Free labels.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// Text for people.
    #[prost(string, tag = "6")]
    pub description: String,
    /// When it is due.
    #[prost(message, optional, tag = "7")]
    pub schedule: Option<Schedule>,
    /// What it does.
    #[prost(oneof = "Target", tags = "8, 9, 10, 26")]
    pub target: Option<Target>,
    /// The queue whose workers run it; empty is `default`.
    #[prost(string, tag = "11")]
    pub queue: String,
    /// Higher goes first within a queue.
    #[prost(sint32, tag = "12")]
    pub priority: i32,
    /// What to do after a known failure.
    #[prost(message, optional, tag = "13")]
    pub retry: Option<Retry>,
    /// What to do when an outcome is unknown.
    #[prost(enumeration = "Delivery", tag = "14")]
    pub delivery: i32,
    /// What to do about ticks that nothing could fire.
    #[prost(message, optional, tag = "15")]
    pub misfire: Option<Misfire>,
    /// What to do about a tick while a run is open.
    #[prost(message, optional, tag = "16")]
    pub overlap: Option<Overlap>,
    /// Runs with the same key run in schedule order, one at a time.
    #[prost(string, tag = "17")]
    pub ordering_key: String,
    /// Whether a failed run holds up its ordering key.
    #[prost(enumeration = "OnFailure", tag = "18")]
    pub on_failure: i32,
    /// How long an attempt may take; zero is without limit.
    #[prost(uint64, tag = "19")]
    pub timeout_ms: u64,
    /// How late a run may start; zero is without limit.
    #[prost(uint64, tag = "20")]
    pub expires_after_ms: u64,
    /// What counts as success.
    #[prost(message, optional, tag = "21")]
    pub success: Option<Success>,
    /// How long to keep what happened.
    #[prost(message, optional, tag = "22")]
    pub retention: Option<Retention>,
    /// Notices to send, as the caller wrote them (JSON array); empty for none.
    #[prost(bytes = "bytes", tag = "23")]
    pub notify: Bytes,
    /// Labels a worker must have.
    #[prost(btree_map = "string, string", tag = "24")]
    pub requires: BTreeMap<String, String>,
    /// Created as paused.
    #[prost(bool, tag = "25")]
    pub disabled: bool,
    /// How much memory the processes of a command may use together; zero is without limit.
    #[prost(uint64, tag = "30")]
    pub memory_limit_bytes: u64,
    /// What an attempt is expected to use; `None` if the caller did not say.
    #[prost(message, optional, tag = "28")]
    pub resources: Option<Resources>,
    /// How many workers run it each time.
    #[prost(enumeration = "TargetWorkers", tag = "29")]
    pub target_workers: i32,
}

/// When a job is due; mirrors [`crate::schedule::ScheduleSpec`].
#[derive(Clone, PartialEq, Message)]
pub struct Schedule {
    /// Due when any of these is.
    #[prost(message, repeated, tag = "1")]
    pub any: Vec<Rule>,
    /// But not when any of these is.
    #[prost(message, repeated, tag = "2")]
    pub except: Vec<Rule>,
    /// IANA zone; empty is UTC.
    #[prost(string, tag = "3")]
    pub timezone: String,
    /// Whether day-of-month and day-of-week must both match.
    #[prost(bool, tag = "4")]
    pub day_match_both: bool,
    /// 0 default, 1 run after, 2 skip.
    #[prost(uint32, tag = "5")]
    pub dst_gap: u32,
    /// 0 default, 1 first, 2 second, 3 both.
    #[prost(uint32, tag = "6")]
    pub dst_fold: u32,
    /// No tick before this.
    #[prost(int64, optional, tag = "7")]
    pub start_ms: Option<i64>,
    /// No tick after this.
    #[prost(int64, optional, tag = "8")]
    pub end_ms: Option<i64>,
    /// No more scheduled runs than this; zero is without limit.
    #[prost(uint32, tag = "9")]
    pub max_runs: u32,
    /// A delay of up to this is added to each tick.
    #[prost(uint64, tag = "10")]
    pub jitter_ms: u64,
}

/// One rule of a schedule.
#[derive(Clone, PartialEq, Message)]
pub struct Rule {
    /// Which form.
    #[prost(oneof = "RuleForm", tags = "1, 2, 3, 4, 5")]
    pub form: Option<RuleForm>,
}

/// The forms a rule can have.
#[derive(Clone, PartialEq, Oneof)]
pub enum RuleForm {
    /// A cron expression.
    #[prost(string, tag = "1")]
    Cron(String),
    /// Every so many milliseconds, from the start.
    #[prost(uint64, tag = "2")]
    EveryMs(u64),
    /// So many milliseconds after the last end.
    #[prost(uint64, tag = "3")]
    EveryAfterFinishMs(u64),
    /// At an instant.
    #[prost(int64, tag = "4")]
    AtMs(i64),
    /// So many milliseconds after creation.
    #[prost(uint64, tag = "5")]
    DelayMs(u64),
}

/// What a job does.
#[derive(Clone, PartialEq, Oneof)]
pub enum Target {
    /// Runs a command.
    #[prost(message, tag = "8")]
    Command(CommandTarget),
    /// Calls a URL.
    #[prost(message, tag = "9")]
    Http(HttpTarget),
    /// Calls a handler that a worker has registered.
    #[prost(message, tag = "10")]
    Handler(HandlerTarget),
    /// Hands a message to a broker.
    #[prost(message, tag = "26")]
    Publish(PublishTarget),
}

/// A command.
#[derive(Clone, PartialEq, Message)]
pub struct CommandTarget {
    /// One line for the shell; used if `argv` is empty.
    #[prost(string, tag = "1")]
    pub line: String,
    /// Program and arguments.
    #[prost(string, repeated, tag = "2")]
    pub argv: Vec<String>,
    /// Additional environment.
    #[prost(btree_map = "string, string", tag = "3")]
    pub env: BTreeMap<String, String>,
    /// Working directory.
    #[prost(string, tag = "4")]
    pub cwd: String,
    /// User to run as.
    #[prost(string, tag = "5")]
    pub user: String,
    /// What it reads on standard input.
    #[prost(bytes = "bytes", tag = "6")]
    pub stdin: Bytes,
    /// The shell for `line`; empty is `/bin/sh`.
    #[prost(string, tag = "7")]
    pub shell: String,
    /// Time between TERM and KILL; zero is the server's default.
    #[prost(uint64, tag = "8")]
    pub grace_ms: u64,
}

/// A request.
#[derive(Clone, PartialEq, Message)]
pub struct HttpTarget {
    /// Method; empty is POST if there is a body, else GET.
    #[prost(string, tag = "1")]
    pub method: String,
    /// Where to.
    #[prost(string, tag = "2")]
    pub url: String,
    /// Headers in order.
    #[prost(message, repeated, tag = "3")]
    pub headers: Vec<Header>,
    /// The body as it is sent.
    #[prost(bytes = "bytes", tag = "4")]
    pub body: Bytes,
    /// Whether the body was given as JSON rather than text.
    #[prost(bool, tag = "5")]
    pub body_is_json: bool,
    /// Basic authentication.
    #[prost(message, optional, tag = "6")]
    pub basic: Option<BasicAuth>,
    /// Bearer token; empty for none.
    #[prost(string, tag = "7")]
    pub bearer: String,
    /// Whether to follow redirects.
    #[prost(bool, tag = "8")]
    pub follow_redirects: bool,
    /// Time to connect; zero is the default.
    #[prost(uint64, tag = "9")]
    pub connect_timeout_ms: u64,
}

/// A header.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Header {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// User and password.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct BasicAuth {
    /// The user.
    #[prost(string, tag = "1")]
    pub username: String,
    /// The password.
    #[prost(string, tag = "2")]
    pub password: String,
}

/// A handler of an application.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct HandlerTarget {
    /// Which handler.
    #[prost(string, tag = "1")]
    pub job_type: String,
    /// JSON for it, as the caller wrote it.
    #[prost(bytes = "bytes", tag = "2")]
    pub payload: Bytes,
}

/// A message for a broker.
#[derive(Clone, PartialEq, Message)]
pub struct PublishTarget {
    /// Which broker, and where in it.
    #[prost(oneof = "Broker", tags = "1, 2, 3")]
    pub broker: Option<Broker>,
    /// Headers in order.
    #[prost(message, repeated, tag = "4")]
    pub headers: Vec<Header>,
    /// The body as it is sent.
    #[prost(bytes = "bytes", tag = "5")]
    pub body: Bytes,
    /// Whether the body was given as JSON rather than text.
    #[prost(bool, tag = "6")]
    pub body_is_json: bool,
    /// Whether the body was given as the job's payload.
    #[prost(bool, tag = "7")]
    pub body_is_payload: bool,
}

/// The kinds of brokers.
#[derive(Clone, PartialEq, Oneof)]
pub enum Broker {
    /// NATS.
    #[prost(message, tag = "1")]
    Nats(NatsBroker),
    /// RabbitMQ and others that speak AMQP 0.9.1.
    #[prost(message, tag = "2")]
    Amqp(AmqpBroker),
    /// Kafka.
    #[prost(message, tag = "3")]
    Kafka(KafkaBroker),
}

/// A subject of NATS.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct NatsBroker {
    /// The server, with credentials if it wants some.
    #[prost(string, tag = "1")]
    pub url: String,
    /// The subject.
    #[prost(string, tag = "2")]
    pub subject: String,
    /// Whether a stream has to confirm the message.
    #[prost(bool, tag = "3")]
    pub jetstream: bool,
}

/// An exchange of an AMQP broker.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct AmqpBroker {
    /// The server and virtual host, with credentials if it wants some.
    #[prost(string, tag = "1")]
    pub url: String,
    /// The exchange; empty is the default one.
    #[prost(string, tag = "2")]
    pub exchange: String,
    /// The routing key; with the default exchange, the queue.
    #[prost(string, tag = "3")]
    pub routing_key: String,
}

/// A topic of Kafka.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct KafkaBroker {
    /// Brokers to ask for the others, as `host:port`.
    #[prost(string, repeated, tag = "1")]
    pub brokers: Vec<String>,
    /// The topic.
    #[prost(string, tag = "2")]
    pub topic: String,
    /// The record's key, which decides about its partition; empty for none.
    #[prost(string, tag = "3")]
    pub key: String,
    /// Whether to speak TLS.
    #[prost(bool, tag = "4")]
    pub tls: bool,
    /// User and password for SASL PLAIN.
    #[prost(message, optional, tag = "5")]
    pub sasl: Option<BasicAuth>,
}

/// What an attempt is expected to use, as far as the caller said it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Resources {
    /// Thousandths of a processor.
    #[prost(uint32, optional, tag = "1")]
    pub cpu_milli: Option<u32>,
    /// Memory.
    #[prost(uint64, optional, tag = "2")]
    pub memory_bytes: Option<u64>,
}

/// How many workers run a job each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum TargetWorkers {
    /// One, whichever has room.
    Any = 0,
    /// Every one that is there and takes it, each with a run of its own.
    All = 1,
}

/// Retries after a known failure.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Retry {
    /// How many after the first attempt.
    #[prost(uint32, tag = "1")]
    pub max: u32,
    /// The first delay.
    #[prost(uint64, tag = "2")]
    pub initial_ms: u64,
    /// Each delay is this times the one before.
    #[prost(double, tag = "3")]
    pub factor: f64,
    /// But not more than this.
    #[prost(uint64, tag = "4")]
    pub max_delay_ms: u64,
    /// Give or take this part of it.
    #[prost(double, tag = "5")]
    pub jitter: f64,
}

/// What an unknown outcome leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum Delivery {
    /// At most once without retries, else at least once.
    Default = 0,
    /// The run is lost.
    AtMostOnce = 1,
    /// Another attempt is started.
    AtLeastOnce = 2,
}

/// What ticks lead to that nothing could fire in time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Misfire {
    /// What to do.
    #[prost(enumeration = "MisfirePolicy", tag = "1")]
    pub policy: i32,
    /// Ticks older than this are dropped; `None` is the default for the kind of job.
    #[prost(uint64, optional, tag = "2")]
    pub window_ms: Option<u64>,
    /// At most so many are made up for under `all`; zero is the default.
    #[prost(uint32, tag = "3")]
    pub max: u32,
}

/// The policies for missed ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum MisfirePolicy {
    /// One run stands for all.
    Once = 0,
    /// None is made up for.
    Skip = 1,
    /// Each is made up for.
    All = 2,
}

/// What a tick leads to while a run is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Overlap {
    /// What to do.
    #[prost(enumeration = "OverlapPolicy", tag = "1")]
    pub policy: i32,
    /// How many may wait under `queue`; zero is the default.
    #[prost(uint32, tag = "2")]
    pub max: u32,
}

/// The policies for ticks while a run is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum OverlapPolicy {
    /// The tick is skipped.
    Skip = 0,
    /// The run waits.
    Queue = 1,
    /// The open run is canceled first.
    Replace = 2,
    /// Both run.
    Allow = 3,
}

/// Whether a failed run holds up its ordering key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Enumeration)]
#[repr(i32)]
pub enum OnFailure {
    /// It does, until it is retried or canceled.
    Block = 0,
    /// The next one goes ahead.
    Continue = 1,
}

/// What counts as success.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Success {
    /// Exit codes; empty is 0.
    #[prost(sint32, repeated, tag = "1")]
    pub exit_codes: Vec<i32>,
    /// The output must match this expression.
    #[prost(string, tag = "2")]
    pub output_matches: String,
    /// The output must not match this expression.
    #[prost(string, tag = "3")]
    pub output_must_not_match: String,
    /// Status codes such as `200`, `2xx`, `200-299`; empty is `2xx`.
    #[prost(string, repeated, tag = "4")]
    pub status_codes: Vec<String>,
    /// A path into the JSON of the response; empty for none.
    #[prost(string, tag = "5")]
    pub json_path: String,
    /// JSON that the path must yield; empty: it must yield something other than null or false.
    #[prost(string, tag = "6")]
    pub json_equals: String,
}

/// How long to keep what happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Retention {
    /// At most so many runs of a recurring job; zero is the server's default.
    #[prost(uint32, tag = "1")]
    pub runs: u32,
    /// At most so long; zero is the server's default.
    #[prost(uint64, tag = "2")]
    pub age_ms: u64,
}
