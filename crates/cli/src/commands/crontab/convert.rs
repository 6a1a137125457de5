//! Lines of a crontab as jobs, and jobs as lines.

use std::collections::BTreeMap;

use bellwether_api::{Job, JobSpec, MASK, Schedule, TextOr};
use bellwether_core::crontab::Entry;

use super::{mark, shell};
use crate::spec::schedule_object;

/// The label that keeps a crontab's MAILTO.
pub const MAILTO_LABEL: &str = "mailto";

/// What imported jobs have in common.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// Put before every key.
    pub prefix: String,
    /// The group of all.
    pub group: Option<String>,
    /// The namespace of all.
    pub namespace: Option<String>,
    /// The zone of lines without CRON_TZ: that of the machine cron runs on.
    pub timezone: Option<String>,
    /// The user of lines without one.
    pub user: Option<String>,
}

impl Common {
    /// Puts into a job what all of them have.
    pub fn place(&self, spec: &mut JobSpec) {
        if let Some(key) = spec.key.as_mut().filter(|key| !key.starts_with(&self.prefix)) {
            *key = format!("{}{key}", self.prefix);
        }
        if self.group.is_some() {
            spec.group.clone_from(&self.group);
        }
        if self.namespace.is_some() {
            spec.namespace.clone_from(&self.namespace);
        }
    }
}

/// A line as a job, without what all jobs have in common.
pub fn spec_of_entry(entry: &Entry, common: &Common) -> JobSpec {
    let timezone = entry.timezone.clone().or_else(|| common.timezone.clone());
    let schedule = Schedule {
        cron: Some(entry.schedule.clone()),
        timezone: timezone.filter(|zone| !matches!(zone.as_str(), "UTC" | "Etc/UTC" | "")),
        ..Schedule::default()
    };
    let mut spec = JobSpec {
        key: Some(entry.key.clone()),
        description: mark::description(entry),
        schedule: Some(TextOr::Object(schedule)),
        command: Some(bellwether_api::TextOrList::Text(entry.command.clone())),
        env: entry.env.clone(),
        // Cron starts commands in the home directory.
        cwd: entry.env.get("HOME").filter(|home| home.starts_with('/')).cloned(),
        user: entry.user.clone().or_else(|| common.user.clone()),
        stdin: entry.stdin.clone().filter(|stdin| !stdin.is_empty()),
        shell: entry.shell.clone().filter(|shell| shell != "/bin/sh"),
        ..JobSpec::default()
    };
    if let Some(mailto) = entry.mailto.as_ref().filter(|mailto| !mailto.is_empty()) {
        spec.labels.insert(MAILTO_LABEL.to_owned(), mailto.clone());
    }
    spec
}

/// Whether a crontab can have a job at all.
///
/// # Errors
/// Why not.
pub fn check(job: &Job) -> Result<(), String> {
    let spec = &job.spec;
    if spec.command.is_none() {
        return Err("it does not run a command".to_owned());
    }
    let schedule = match &spec.schedule {
        Some(schedule) => schedule_object(schedule).map_err(|error| error.to_string())?,
        None => return Err("it has no recurring schedule".to_owned()),
    };
    if schedule.cron.is_none() {
        return Err("its schedule is not a cron expression".to_owned());
    }
    let plain = Schedule {
        cron: schedule.cron.clone(),
        timezone: schedule.timezone.clone(),
        ..Schedule::default()
    };
    if schedule != plain {
        return Err("its schedule has bounds or exceptions".to_owned());
    }
    if spec.enabled == Some(false) {
        return Err("it is paused".to_owned());
    }
    secrets(spec)
}

/// Secrets are shown masked, and a mask in a crontab would be taken for the secret.
fn secrets(spec: &JobSpec) -> Result<(), String> {
    let masked = spec.env.iter().filter(|(_, value)| value.contains(MASK));
    let names: Vec<&str> = masked.map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        return Err(format!("it has secrets, which the server does not show ({names})"));
    }
    match serde_json::to_string(spec) {
        Ok(text) if !text.contains(MASK) => Ok(()),
        _ => Err("it has secrets, which the server does not show".to_owned()),
    }
}

/// The variables that all jobs have with the same value, and a crontab can set for all lines.
pub fn shared_env<'a>(mut jobs: impl Iterator<Item = &'a Job>) -> BTreeMap<String, String> {
    let settable = |name: &str, value: &str| {
        let special = matches!(name, "CRON_TZ" | "SHELL" | "MAILTO");
        let quotable = !value.contains('\'') || !value.contains('"');
        shell::is_name(name) && !special && quotable && !value.contains(char::is_control)
    };
    let mut shared = match jobs.next() {
        Some(first) => first.spec.env.clone(),
        None => return BTreeMap::new(),
    };
    shared.retain(|name, value| settable(name, value));
    for job in jobs {
        shared.retain(|name, value| job.spec.env.get(name) == Some(value));
    }
    shared
}

/// A job as a line, under the variables that all lines share.
///
/// # Errors
/// Why a crontab cannot express it.
pub fn entry_of_job(job: &Job, shared: &BTreeMap<String, String>) -> Result<Entry, String> {
    check(job)?;
    let spec = &job.spec;
    let schedule = spec.schedule.as_ref().and_then(|schedule| schedule_object(schedule).ok());
    let schedule = schedule.unwrap_or_default();
    Ok(Entry {
        line: 0,
        key: spec.key.clone().unwrap_or_else(|| job.info.id.clone()),
        schedule: schedule.cron.unwrap_or_default(),
        timezone: Some(schedule.timezone.unwrap_or_else(|| "UTC".to_owned())),
        user: spec.user.clone(),
        command: shell::line(spec, shared)?,
        stdin: spec.stdin.clone(),
        env: shared.clone(),
        shell: Some(spec.shell.clone().unwrap_or_else(|| "/bin/sh".to_owned())),
        mailto: spec.labels.get(MAILTO_LABEL).cloned(),
        comment: spec.description.clone().filter(|text| !mark::is_mark(text)),
    })
}

#[cfg(test)]
mod tests {
    use bellwether_core::crontab::{Format, parse};
    use serde_json::json;

    use super::*;

    fn first(text: &str, format: Format) -> JobSpec {
        let common = Common {
            prefix: "web-".to_owned(),
            timezone: Some("Asia/Tokyo".to_owned()),
            ..Common::default()
        };
        let mut spec = spec_of_entry(&parse(text, format).entries[0], &common);
        common.place(&mut spec);
        assert!(spec.key.take().unwrap().starts_with("web-"));
        spec
    }

    #[test]
    fn r45_a_line_keeps_all_it_said() {
        let text = "SHELL=/bin/bash\nMAILTO=ops@example.com\nCRON_TZ=Europe/Berlin\nA=b\n# nightly\n\
                    5 2 * * 6 root make-report --full%line 1%line 2\n";
        assert_eq!(
            serde_json::to_value(first(text, Format::System)).unwrap(),
            json!({"schedule": {"cron": "5 2 * * 6", "timezone": "Europe/Berlin"}, "user": "root",
                   "command": "make-report --full", "stdin": "line 1\nline 2\n", "env": {"A": "b"},
                   "shell": "/bin/bash", "labels": {"mailto": "ops@example.com"},
                   "description": "nightly"})
        );
        assert_eq!(
            serde_json::to_value(first("@daily x\n", Format::User)).unwrap(),
            json!({"schedule": {"cron": "@daily", "timezone": "Asia/Tokyo"}, "command": "x"}),
            "without CRON_TZ the machine's zone counts"
        );
    }
}
