//! All flags that describe a job.

use anyhow::Result;
use bellwether_api::JobSpec;
use clap::Args;

use super::policy::PolicyFlags;
use super::schedule::ScheduleFlags;
use super::target::TargetFlags;
use super::value::parse_pair;

/// What a job is, does, and how it behaves.
#[derive(Args, Debug, Default)]
pub struct SpecFlags {
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    policy: PolicyFlags,
}

/// What it is called.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Name")]
struct NameFlags {
    /// Your own name for it, unique in its namespace
    #[arg(long)]
    key: Option<String>,
    /// The group, for browsing and pausing
    #[arg(long)]
    group: Option<String>,
    /// Who owns it
    #[arg(long)]
    owner: Option<String>,
    /// A label; repeatable
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_pair)]
    labels: Vec<(String, String)>,
    /// Text for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl SpecFlags {
    /// Puts what the flags say into a spec, over what it has.
    pub fn apply(&self, spec: &mut JobSpec) -> Result<()> {
        let NameFlags { key, group, owner, labels, description } = &self.name;
        set(&mut spec.key, key);
        set(&mut spec.group, group);
        set(&mut spec.owner, owner);
        set(&mut spec.description, description);
        spec.labels.extend(labels.iter().cloned());
        self.schedule.apply(spec)?;
        self.target.apply(spec)?;
        self.policy.apply(spec);
        Ok(())
    }
}

/// Sets a field if there is something to set it to.
pub(super) fn set<T: Clone>(field: &mut Option<T>, value: &Option<T>) {
    if value.is_some() {
        field.clone_from(value);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: SpecFlags,
    }

    fn check(line: &[&str], expected: serde_json::Value) {
        check_over(JobSpec::default(), line, expected);
    }

    fn check_over(mut spec: JobSpec, line: &[&str], expected: serde_json::Value) {
        let line = Line::try_parse_from(["job-add"].iter().chain(line)).map_err(|e| e.to_string());
        line.unwrap().flags.apply(&mut spec).unwrap();
        assert_eq!(serde_json::to_value(&spec).unwrap(), expected);
    }

    #[test]
    fn r49_where_it_runs_is_said_in_the_words_of_workers() {
        let over = JobSpec { resources: "cpu=4,memory=1G".parse().ok(), ..JobSpec::default() };
        check_over(
            over,
            &["--resources", "cpu=0.5", "--target-workers", "all"],
            json!({"resources": {"cpu": 0.5, "memory": "1G"}, "target_workers": "all"}),
        );
        for wrong in [["--resources", "disk=1"], ["--target-workers", "some"]] {
            assert!(Line::try_parse_from(["job-add"].iter().chain(&wrong)).is_err());
        }
    }

    #[test]
    fn a_command_is_a_shell_line_or_a_program_with_arguments() {
        check(
            &[
                "--key",
                "nightly",
                "--cron",
                "5 2 * * 6",
                "--timezone",
                "Europe/Berlin",
                "--",
                "make-report",
                "--full",
            ],
            json!({"key": "nightly", "command": ["make-report", "--full"],
                   "schedule": {"cron": "5 2 * * 6", "timezone": "Europe/Berlin"}}),
        );
        check(
            &["--delay", "30m", "--", "make-report --full > out"],
            json!({"command": "make-report --full > out", "schedule": {"delay": "30m"}}),
        );
    }

    #[test]
    fn http_calls_take_method_headers_body_and_auth() {
        check(
            &[
                "--every",
                "5m",
                "--http",
                "http://h/x",
                "--method",
                "PUT",
                "--header",
                "X-A: b: c",
                "--body",
                r#"{"a": 1}"#,
                "--basic-auth",
                "u:p:q",
            ],
            json!({"schedule": {"every": "5m"}, "http": {"url": "http://h/x", "method": "PUT",
                   "headers": {"X-A": "b: c"}, "body": {"a": 1},
                   "auth": {"basic": {"username": "u", "password": "p:q"}}}}),
        );
        check(
            &["--at", "2026-12-31T23:59:59Z", "--http", "http://h", "--body", "a=1"],
            json!({"schedule": {"at": "2026-12-31T23:59:59.000Z"}, "http": {"url": "http://h", "body": "a=1"}}),
        );
    }

    #[test]
    fn r15_handlers_take_a_payload() {
        check(
            &[
                "--at",
                "2026-12-31T23:59:59Z",
                "--type",
                "email_send",
                "--payload",
                r#"{"user_id": 123}"#,
                "--retries",
                "3",
            ],
            json!({"schedule": {"at": "2026-12-31T23:59:59.000Z"}, "job_type": "email_send",
                   "payload": {"user_id": 123}, "retries": 3}),
        );
    }

    #[test]
    fn policies_are_set_one_by_one() {
        check(
            &[
                "--retries",
                "3",
                "--retry-initial",
                "10s",
                "--misfire",
                "all",
                "--misfire-window",
                "6h",
                "--overlap",
                "queue",
                "--timeout",
                "1h",
                "--memory-limit",
                "512M",
                "--queue",
                "heavy",
                "--priority=-5",
                "--fail-on-output",
                "ERROR",
                "--disabled",
                "--keep-runs",
                "10",
            ],
            json!({"retry": {"max": 3, "initial": "10s"}, "misfire": {"policy": "all", "window": "6h"},
                   "overlap": "queue", "timeout": "1h", "memory_limit": "512M", "queue": "heavy", "priority": -5,
                   "success": {"output_must_not_match": "ERROR"}, "enabled": false,
                   "retention": {"runs": 10}}),
        );
    }

    #[test]
    fn flags_go_over_what_a_file_says() {
        let spec: JobSpec = serde_json::from_value(json!({
            "key": "k", "schedule": "every 5m", "command": "old", "retries": 1, "labels": {"a": "1"}
        }))
        .unwrap();
        check_over(
            spec,
            &["--cron", "@daily", "--label", "b=2", "--retries", "2", "--", "new"],
            json!({"key": "k", "schedule": {"cron": "@daily"}, "command": "new", "retries": 2,
                   "labels": {"a": "1", "b": "2"}}),
        );
        let spec: JobSpec = serde_json::from_value(json!({"schedule": "5 2 * * 6"})).unwrap();
        check_over(
            spec,
            &["--timezone", "Asia/Tokyo"],
            json!({"schedule": {"cron": "5 2 * * 6", "timezone": "Asia/Tokyo"}}),
        );
    }

    #[test]
    fn two_schedules_or_two_targets_are_refused() {
        for line in [
            vec!["--cron", "* * * * *", "--every", "5m", "--", "x"],
            vec!["--every", "5m", "--http", "http://h", "--", "x"],
            vec!["--every", "5m", "--http", "http://h", "--type", "x"],
            vec!["--delay", "5 parsecs", "--", "x"],
        ] {
            let line = ["job-add"].iter().chain(&line);
            assert!(Line::try_parse_from(line.clone()).is_err(), "{line:?}");
        }
        for line in [
            vec!["--body", "x", "--", "x"],
            vec!["--payload", "{}", "--", "x"],
            vec!["--delay", "5m", "--match-both-days", "--", "x"],
            vec!["--schedule", "every 5m", "--match-both-days", "--", "x"],
            vec!["--cron", "@daily", "--after-finish", "--", "x"],
        ] {
            let line = Line::try_parse_from(["job-add"].iter().chain(&line)).unwrap();
            let error = line.flags.apply(&mut JobSpec::default()).unwrap_err().to_string();
            assert!(error.contains("goes with "), "{error}");
        }
    }

    #[test]
    fn details_of_a_request_can_be_changed_alone() {
        let spec: JobSpec = serde_json::from_value(json!({
            "http": {"url": "http://h", "headers": {"A": "1"}, "method": "PUT"}
        }))
        .unwrap();
        check_over(
            spec,
            &["--method", "DELETE", "--header", "B: 2"],
            json!({"http": {"url": "http://h", "headers": {"A": "1", "B": "2"}, "method": "DELETE"}}),
        );
    }
}
