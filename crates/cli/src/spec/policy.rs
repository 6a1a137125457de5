//! Flags that say how.

use bellwether_api::{
    Delivery, JobSpec, Misfire, MisfirePolicy, OnFailure, Overlap, OverlapPolicy, Resources,
    Retention, Retry, Span, StatusCode, Success, TargetWorkers, TextOr,
};
use clap::{Args, ValueEnum};

use super::flags::set;
use super::value::{parse_pair, parse_span};

/// How it behaves when things do not go as planned.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "How")]
pub struct PolicyFlags {
    /// The queue whose workers run it
    #[arg(long)]
    queue: Option<String>,
    /// Higher goes first within the queue
    #[arg(long, allow_hyphen_values = true)]
    priority: Option<i32>,
    /// A label that workers must have; repeatable
    #[arg(long = "requires", value_name = "NAME=VALUE", value_parser = parse_pair)]
    requires: Vec<(String, String)>,
    /// What an attempt is expected to use
    #[arg(long, value_name = "cpu=0.5,memory=512M")]
    resources: Option<Resources>,
    /// Run it on one worker each time, or on all that are connected and take it
    #[arg(long)]
    target_workers: Option<TargetWorkersFlag>,
    /// How many retries after a known failure
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// The delay before the first retry; doubled for each further one
    #[arg(long, value_name = "DURATION", value_parser = parse_span, requires = "retries")]
    retry_initial: Option<Span>,
    /// The longest delay between retries
    #[arg(long, value_name = "DURATION", value_parser = parse_span, requires = "retries")]
    retry_max_delay: Option<Span>,
    /// When an outcome is unknown: start again, or never
    #[arg(long)]
    delivery: Option<DeliveryFlag>,
    /// Ticks that nothing could fire: make up for them once, for none, for all
    #[arg(long)]
    misfire: Option<MisfireFlag>,
    /// Drop missed ticks older than this
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    misfire_window: Option<Span>,
    /// A tick while a run is open
    #[arg(long)]
    overlap: Option<OverlapFlag>,
    /// Runs with the same ordering key run in schedule order, one at a time
    #[arg(long, value_name = "NAME")]
    ordering_key: Option<String>,
    /// Whether a failed run holds its ordering key up
    #[arg(long)]
    on_failure: Option<OnFailureFlag>,
    /// How long an attempt may take
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    timeout: Option<Span>,
    /// How late a run may start
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    expires_after: Option<Span>,
    /// An exit code that counts as success; repeatable; 0 if not given
    #[arg(long = "success-exit-code", value_name = "CODE", allow_hyphen_values = true)]
    exit_codes: Vec<i32>,
    /// A status of the response that counts as success: 200, 2xx, 200-299; repeatable
    #[arg(long = "success-status", value_name = "STATUS")]
    status_codes: Vec<String>,
    /// Output or body must match this regular expression
    #[arg(long, value_name = "REGEX")]
    expect_output: Option<String>,
    /// Output or body must not match this regular expression
    #[arg(long, value_name = "REGEX")]
    fail_on_output: Option<String>,
    /// Keep at most so many runs
    #[arg(long, value_name = "N")]
    keep_runs: Option<u32>,
    /// Keep runs for so long
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    keep_for: Option<Span>,
    /// Do not run it until it is resumed
    #[arg(long, conflicts_with = "enabled")]
    disabled: bool,
    /// Run it, also if it was disabled
    #[arg(long)]
    enabled: bool,
}

/// [`Delivery`] by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum DeliveryFlag {
    AtMostOnce,
    AtLeastOnce,
}

/// [`TargetWorkers`] by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TargetWorkersFlag {
    Any,
    All,
}

/// [`MisfirePolicy`] by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MisfireFlag {
    Once,
    Skip,
    All,
}

/// [`OverlapPolicy`] by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OverlapFlag {
    Skip,
    Queue,
    Replace,
    Allow,
}

/// [`OnFailure`] by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnFailureFlag {
    Block,
    Continue,
}

impl PolicyFlags {
    pub(super) fn apply(&self, spec: &mut JobSpec) {
        set(&mut spec.queue, &self.queue);
        set(&mut spec.priority, &self.priority);
        spec.requires.extend(self.requires.iter().cloned());
        set(&mut spec.target_workers, &self.target_workers.map(target_workers));
        if let Some(given) = self.resources {
            let resources = spec.resources.get_or_insert_with(Resources::default);
            set(&mut resources.cpu, &given.cpu);
            set(&mut resources.memory, &given.memory);
        }
        self.apply_retry(spec);
        set(&mut spec.delivery, &self.delivery.map(delivery));
        self.apply_misfire(spec);
        set(&mut spec.overlap, &self.overlap.map(overlap));
        set(&mut spec.ordering_key, &self.ordering_key);
        set(&mut spec.on_failure, &self.on_failure.map(on_failure));
        set(&mut spec.timeout, &self.timeout);
        set(&mut spec.expires_after, &self.expires_after);
        self.apply_success(spec);
        if self.keep_runs.is_some() || self.keep_for.is_some() {
            let retention = spec.retention.get_or_insert_with(Retention::default);
            set(&mut retention.runs, &self.keep_runs);
            set(&mut retention.age, &self.keep_for);
        }
        if self.disabled || self.enabled {
            spec.enabled = Some(self.enabled);
        }
    }

    fn apply_retry(&self, spec: &mut JobSpec) {
        let Some(max) = self.retries else { return };
        let detailed = self.retry_initial.is_some() || self.retry_max_delay.is_some();
        if spec.retry.is_none() && !detailed {
            spec.retries = Some(max);
            return;
        }
        spec.retries = None;
        let retry = spec.retry.get_or_insert_with(Retry::default);
        retry.max = max;
        set(&mut retry.initial, &self.retry_initial);
        set(&mut retry.max_delay, &self.retry_max_delay);
    }

    fn apply_misfire(&self, spec: &mut JobSpec) {
        let policy = self.misfire.map(|flag| match flag {
            MisfireFlag::Once => MisfirePolicy::Once,
            MisfireFlag::Skip => MisfirePolicy::Skip,
            MisfireFlag::All => MisfirePolicy::All,
        });
        if policy.is_none() && self.misfire_window.is_none() {
            return;
        }
        let mut misfire = match &spec.misfire {
            Some(TextOr::Object(misfire)) => *misfire,
            // A name stands for nothing but itself.
            Some(TextOr::Text(name)) => {
                let named = serde_json::Value::String(name.clone());
                let policy = serde_json::from_value(named).ok();
                Misfire { policy, window: None, max: None }
            }
            None => Misfire { policy: None, window: None, max: None },
        };
        set(&mut misfire.policy, &policy);
        set(&mut misfire.window, &self.misfire_window);
        spec.misfire = Some(TextOr::Object(misfire));
    }

    fn apply_success(&self, spec: &mut JobSpec) {
        let mut success = spec.success.clone().unwrap_or_default();
        if !self.exit_codes.is_empty() {
            success.exit_codes.clone_from(&self.exit_codes);
        }
        if !self.status_codes.is_empty() {
            success.status_codes =
                self.status_codes.iter().map(|code| StatusCode::Text(code.clone())).collect();
        }
        set(&mut success.output_matches, &self.expect_output);
        set(&mut success.output_must_not_match, &self.fail_on_output);
        spec.success = Some(success).filter(|success| *success != Success::default());
    }
}

fn target_workers(flag: TargetWorkersFlag) -> TargetWorkers {
    match flag {
        TargetWorkersFlag::Any => TargetWorkers::Any,
        TargetWorkersFlag::All => TargetWorkers::All,
    }
}

fn delivery(flag: DeliveryFlag) -> Delivery {
    match flag {
        DeliveryFlag::AtMostOnce => Delivery::AtMostOnce,
        DeliveryFlag::AtLeastOnce => Delivery::AtLeastOnce,
    }
}

fn overlap(flag: OverlapFlag) -> TextOr<Overlap> {
    let policy = match flag {
        OverlapFlag::Skip => OverlapPolicy::Skip,
        OverlapFlag::Queue => OverlapPolicy::Queue,
        OverlapFlag::Replace => OverlapPolicy::Replace,
        OverlapFlag::Allow => OverlapPolicy::Allow,
    };
    let name = serde_json::to_value(policy).ok().and_then(|name| name.as_str().map(str::to_owned));
    match name {
        Some(name) => TextOr::Text(name),
        None => TextOr::Object(Overlap { policy, max: None }),
    }
}

fn on_failure(flag: OnFailureFlag) -> OnFailure {
    match flag {
        OnFailureFlag::Block => OnFailure::Block,
        OnFailureFlag::Continue => OnFailure::Continue,
    }
}
