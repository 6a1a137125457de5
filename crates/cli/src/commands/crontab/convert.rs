//! Lines of a crontab as jobs, and jobs as lines.

use bellwether_api::{Job, JobSpec, Schedule, TextOr, TextOrList};
use bellwether_core::crontab::Entry;

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

/// A line as a job.
pub fn spec_of_entry(entry: &Entry, common: &Common) -> JobSpec {
    let timezone = entry.timezone.clone().or_else(|| common.timezone.clone());
    let schedule = Schedule {
        cron: Some(entry.schedule.clone()),
        timezone: timezone.filter(|zone| !matches!(zone.as_str(), "UTC" | "Etc/UTC" | "")),
        ..Schedule::default()
    };
    let mut spec = JobSpec {
        key: Some(format!("{}{}", common.prefix, entry.key)),
        namespace: common.namespace.clone(),
        group: common.group.clone(),
        description: entry.comment.clone(),
        schedule: Some(TextOr::Object(schedule)),
        command: Some(TextOrList::Text(entry.command.clone())),
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

/// A job as a line.
///
/// # Errors
/// Why a crontab cannot express it.
pub fn entry_of_job(job: &Job) -> Result<Entry, String> {
    let spec = &job.spec;
    let command = match &spec.command {
        Some(TextOrList::Text(line)) => line.clone(),
        Some(TextOrList::List(argv)) => {
            argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
        None => return Err("it does not run a command".to_owned()),
    };
    let schedule = match &spec.schedule {
        Some(schedule) => schedule_object(schedule).map_err(|error| error.to_string())?,
        None => return Err("it has no recurring schedule".to_owned()),
    };
    let Some(cron) = schedule.cron.clone() else {
        return Err("its schedule is not a cron expression".to_owned());
    };
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
    let mut env = spec.env.clone();
    if let (Some(cwd), None) = (&spec.cwd, env.get("HOME")) {
        env.insert("HOME".to_owned(), cwd.clone());
    }
    Ok(Entry {
        line: 0,
        key: spec.key.clone().unwrap_or_else(|| job.info.id.clone()),
        schedule: cron,
        timezone: Some(schedule.timezone.unwrap_or_else(|| "UTC".to_owned())),
        user: spec.user.clone(),
        command,
        stdin: spec.stdin.clone(),
        env,
        shell: Some(spec.shell.clone().unwrap_or_else(|| "/bin/sh".to_owned())),
        mailto: spec.labels.get(MAILTO_LABEL).cloned(),
        comment: spec.description.clone(),
    })
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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

    #[test]
    fn words_are_quoted_for_the_shell() {
        for (word, shell) in
            [("make", "make"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(word), shell);
        }
    }
}
