//! How much of everything is accepted. `docs/limits.md` says the same for people.

use bellwether_core::time::{DAY_MS, HOUR_MS, SECOND_MS};

/// Characters of a `key` or `ordering_key`.
pub(super) const KEY_CHARS_MAX: usize = 256;
/// Characters of a namespace, group, owner, queue, user or `job_type`.
pub(super) const NAME_CHARS_MAX: usize = 128;
/// Characters of a description, and of paths.
pub(super) const TEXT_CHARS_MAX: usize = 4_096;
/// Labels of a job.
pub(super) const LABELS_MAX: usize = 64;
/// Characters of a label's name.
pub(super) const LABEL_NAME_CHARS_MAX: usize = 63;
/// Characters of a label's value.
pub(super) const LABEL_VALUE_CHARS_MAX: usize = 256;

/// Bytes of a payload, of a request's body and of standard input.
pub(super) const PAYLOAD_BYTES_MAX: usize = 204_800;
/// Levels of nesting in JSON that is stored as it stands. Clients can read such a document
/// back even inside a list of jobs.
pub(super) const JSON_DEPTH_MAX: usize = 100;
/// Bytes of a command line.
pub(super) const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Arguments of a command, the program included.
pub(super) const ARGV_MAX: usize = 1_000;
/// Bytes of all arguments.
pub(super) const ARGV_BYTES_MAX: usize = 128 * 1024;
/// Environment variables.
pub(super) const ENV_MAX: usize = 500;
/// Bytes of all environment variables, names and values.
pub(super) const ENV_BYTES_MAX: usize = 64 * 1024;
/// Headers of a request.
pub(super) const HEADERS_MAX: usize = 100;
/// Bytes of all headers, names and values.
pub(super) const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a URL, a password and a token.
pub(super) const URL_BYTES_MAX: usize = 8 * 1024;
/// Characters of a user name for basic authentication.
pub(super) const USERNAME_CHARS_MAX: usize = 1_024;
/// Bytes of `notify`.
pub(super) const NOTIFY_BYTES_MAX: usize = 16 * 1024;

/// Retries of a run.
pub(super) const RETRIES_MAX: u32 = 10_000;
/// The longest delay between attempts.
pub(super) const RETRY_DELAY_MAX_MS: u64 = 30 * DAY_MS;
/// The largest growth of delays.
pub(super) const RETRY_FACTOR_MAX: f64 = 100.0;
/// The longest an attempt may take.
pub(super) const TIMEOUT_MAX_MS: u64 = 30 * DAY_MS;
/// The longest time between TERM and KILL.
pub(super) const GRACE_MAX_MS: u64 = DAY_MS;
/// The least memory that a command can be limited to: less than a shell needs makes no sense.
pub(super) const MEMORY_LIMIT_MIN_BYTES: u64 = 1 << 20;
/// The most memory that a command can be limited to.
pub(super) const MEMORY_LIMIT_MAX_BYTES: u64 = 1 << 50;
/// The longest time to connect.
pub(super) const CONNECT_TIMEOUT_MAX_MS: u64 = HOUR_MS;
/// The shortest `expires_after`.
pub(super) const EXPIRES_AFTER_MIN_MS: u64 = SECOND_MS;
/// Ticks made up for, and runs that wait.
pub(super) const POLICY_MAX: u32 = 1_000;
/// Runs kept.
pub(super) const RETENTION_RUNS_MAX: u32 = 1_000_000;
/// The shortest retention.
pub(super) const RETENTION_AGE_MIN_MS: u64 = HOUR_MS;
/// The longest retention: seven years.
pub(super) const RETENTION_AGE_MAX_MS: u64 = 2_557 * DAY_MS;
/// Priorities go from minus this to this.
pub(super) const PRIORITY_MAX: i32 = 1_000;
/// Entries in a list of exit codes or status codes.
pub(super) const CODES_MAX: usize = 64;
/// Characters of a pattern or path in success rules.
pub(super) const PATTERN_CHARS_MAX: usize = 1_024;
/// Bytes of the JSON in `success.json_equals`.
pub(super) const JSON_EQUALS_BYTES_MAX: usize = 4_096;
/// Characters of a zone's name.
pub(super) const TIMEZONE_CHARS_MAX: usize = 64;
/// Times shown by a preview.
pub(super) const PREVIEW_TIMES_MAX: u32 = 1_000;
/// Characters of the identity in a preview.
pub(super) const IDENTITY_CHARS_MAX: usize = 512;
