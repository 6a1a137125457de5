//! What lists can be narrowed by.
//!
//! Every filter has a `limit` (items per page, at most 1000) and a `cursor` (from the page before);
//! the streams over all pages take care of the cursor themselves.

use bellwether_api::{JobStatus, RunStatus};

use crate::client::Query;

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Of this namespace; the client's if absent.
    pub namespace: Option<String>,
    /// Of this group.
    pub group: Option<String>,
    /// Of this owner.
    pub owner: Option<String>,
    /// With this status.
    pub status: Option<JobStatus>,
    /// With this label: `name=value`.
    pub label: Option<String>,
    /// Whose key starts like this.
    pub key_prefix: Option<String>,
    /// Items per page.
    pub limit: Option<u32>,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Of this namespace; the client's if absent.
    pub namespace: Option<String>,
    /// With this status.
    pub status: Option<RunStatus>,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of jobs of this group.
    pub group: Option<String>,
    /// Items per page.
    pub limit: Option<u32>,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// Which runs of a batch to list.
#[derive(Clone, Debug, Default)]
pub struct BatchRunFilter {
    /// With one of these statuses; with any if there are none.
    pub statuses: Vec<RunStatus>,
    /// Items per page.
    pub limit: Option<u32>,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// Which part of a list that cannot be narrowed otherwise.
#[derive(Clone, Debug, Default)]
pub struct PageFilter {
    /// Items per page.
    pub limit: Option<u32>,
    /// Where to go on.
    pub cursor: Option<String>,
}

/// Which events to hear of.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of this namespace; the client's if absent.
    pub namespace: Option<String>,
    /// Of this queue.
    pub queue: Option<String>,
}

/// Which output of a run to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputFilter {
    /// Of this attempt; of the last if absent.
    pub attempt: Option<u32>,
    /// Only what went to one of them.
    pub stream: Option<OutputStream>,
    /// Whether to wait for more until the run has ended.
    pub follow: bool,
}

/// Where a command printed something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A filter that names pages.
pub(crate) trait Paged: Clone {
    /// Sets where to go on.
    fn set_cursor(&mut self, cursor: String);
}

macro_rules! paged {
    ($($filter:ty),*) => {
        $(impl Paged for $filter {
            fn set_cursor(&mut self, cursor: String) {
                self.cursor = Some(cursor);
            }
        })*
    };
}

paged!(JobFilter, RunFilter, BatchRunFilter, PageFilter);

fn add(query: &mut Query, name: &'static str, value: Option<impl ToString>) {
    query.extend(value.map(|value| (name, value.to_string())));
}

impl JobFilter {
    pub(crate) fn query(&self, namespace: Option<&str>) -> Query {
        let mut query = Query::new();
        add(&mut query, "namespace", self.namespace.as_deref().or(namespace));
        add(&mut query, "group", self.group.as_deref());
        add(&mut query, "owner", self.owner.as_deref());
        add(&mut query, "status", self.status.map(job_status_name));
        add(&mut query, "label", self.label.as_deref());
        add(&mut query, "key_prefix", self.key_prefix.as_deref());
        add(&mut query, "limit", self.limit);
        add(&mut query, "cursor", self.cursor.as_deref());
        query
    }
}

impl RunFilter {
    pub(crate) fn query(&self, namespace: Option<&str>) -> Query {
        let mut query = Query::new();
        add(&mut query, "namespace", self.namespace.as_deref().or(namespace));
        add(&mut query, "status", self.status.map(run_status_name));
        add(&mut query, "queue", self.queue.as_deref());
        add(&mut query, "group", self.group.as_deref());
        add(&mut query, "limit", self.limit);
        add(&mut query, "cursor", self.cursor.as_deref());
        query
    }
}

impl BatchRunFilter {
    pub(crate) fn query(&self, namespace: Option<&str>) -> Query {
        let mut query = Query::new();
        add(&mut query, "namespace", namespace);
        let statuses: Vec<&str> = self.statuses.iter().copied().map(run_status_name).collect();
        add(&mut query, "status", (!statuses.is_empty()).then(|| statuses.join(",")));
        add(&mut query, "limit", self.limit);
        add(&mut query, "cursor", self.cursor.as_deref());
        query
    }
}

impl PageFilter {
    pub(crate) fn query(&self, namespace: Option<&str>) -> Query {
        let mut query = Query::new();
        add(&mut query, "namespace", namespace);
        add(&mut query, "limit", self.limit);
        add(&mut query, "cursor", self.cursor.as_deref());
        query
    }
}

impl EventFilter {
    pub(crate) fn query(&self, namespace: Option<&str>) -> Query {
        let mut query = Query::new();
        add(&mut query, "namespace", self.namespace.as_deref().or(namespace));
        add(&mut query, "queue", self.queue.as_deref());
        query
    }
}

impl OutputFilter {
    pub(crate) fn query(self) -> Query {
        let mut query = Query::new();
        add(&mut query, "attempt", self.attempt);
        let stream = self.stream.map(|stream| match stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        });
        add(&mut query, "stream", stream);
        add(&mut query, "follow", self.follow.then_some(true));
        query
    }
}

fn job_status_name(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Scheduled => "scheduled",
        JobStatus::Running => "running",
        JobStatus::Paused => "paused",
        JobStatus::Completed => "completed",
        JobStatus::Failed => "failed",
        JobStatus::Canceled => "canceled",
    }
}

fn run_status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Scheduled => "scheduled",
        RunStatus::Queued => "queued",
        RunStatus::Claimed => "claimed",
        RunStatus::Running => "running",
        RunStatus::Retrying => "retrying",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Canceled => "canceled",
        RunStatus::Lost => "lost",
        RunStatus::Skipped => "skipped",
    }
}
