//! What the server says, in the words of the command line.
//!
//! Its problems speak of requests and fields; somebody at a terminal has flags. The codes are
//! stable and their sentences are not, so remedies are put in by code, here and nowhere else.

use bellwether_api::Problem;
use bellwether_client::ClientError;

/// An error in a line.
pub fn of(error: &ClientError) -> String {
    match error.problem() {
        Some(problem) => of_problem(problem),
        None => error.to_string(),
    }
}

/// A problem in a line.
pub fn of_problem(problem: &Problem) -> String {
    let remedy = match problem.code.as_str() {
        "missing_schedule" => {
            let said = "the job has no schedule; say when with --cron, --every, --at or --delay \
                        (--delay 0s runs it right away), or in a file with `schedule`";
            return told(problem, said.to_owned());
        }
        "missing_target" => {
            let said = "the job does nothing; give a command after --, --http URL or --type NAME, \
                        or in a file `command`, `http`, `publish` or `job_type`";
            return told(problem, said.to_owned());
        }
        // A batch is never replaced.
        "key_exists" if problem.detail.contains(" belongs to batch_") => "choose another --key",
        "field_not_applicable" if problem.detail.contains("POST /v1/jobs:batch") => {
            "`bellwether job add -f FILE` adds jobs with times and names of their own"
        }
        "batch_member" => "`bellwether batch cancel` cancels all of it, `run cancel` one run",
        "key_exists" => "replace that job with --replace, or choose another --key",
        "field_fixed" => "delete the job with `bellwether job rm` and add it anew",
        "token_missing" => return told(problem, "the server asks for a token".to_owned()),
        "run_succeeded" => "`bellwether job trigger` runs the job again",
        "no_such_path" => "is it a server of another version?",
        "invalid_parameter" | "in_the_past" => return with_flag(problem).to_string(),
        _ => return problem.to_string(),
    };
    // The last part of the sentence is the remedy for those who write requests.
    let what = problem.detail.rsplit_once("; ").map_or(problem.detail.as_str(), |(what, _)| what);
    told(problem, format!("{what}; {remedy}"))
}

/// A problem in other words. They name what is at fault themselves.
fn told(problem: &Problem, detail: String) -> String {
    Problem { detail, field: None, ..problem.clone() }.to_string()
}

/// The parameter of a request is called like the flag it came from.
fn with_flag(problem: &Problem) -> Problem {
    let field = problem.field.as_ref().map(|field| format!("--{}", field.replace('_', "-")));
    Problem { field, ..problem.clone() }
}

/// What to do about an error, besides what it says itself.
pub fn hint(error: &ClientError) -> Option<&'static str> {
    let problem = error.problem()?;
    match (problem.status, problem.code.as_str()) {
        (_, "last_admin_token") => {
            Some("make another one first: bellwether token create NAME --role admin")
        }
        (_, "other_namespace") => {
            Some("name the token's own namespace with -n, or leave -n and `namespace` out")
        }
        (401, _) => Some(
            "give a token with --token or BELLWETHER_TOKEN; an admin makes one with \
             `bellwether token create`",
        ),
        (403, _) => Some("ask an admin for a token with a role that allows it"),
        (_, "outcome_unknown") => Some(
            "look first whether it was done (`bellwether job list`, `bellwether run list`); only what \
             creates something with a --key is safe to repeat as it is",
        ),
        (_, "no_leader") => Some("`bellwether cluster status` shows which nodes are missing"),
        (503, _) => Some("try again in a moment"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, code: &str, detail: &str) -> ClientError {
        ClientError::Problem(Box::new(Problem::new(status, code, detail)))
    }

    #[test]
    fn remedies_are_flags_and_not_requests() {
        let detail = "the key 'a; b' belongs to job_1, which was created with another body; use \
                      PUT to replace it or choose another key";
        assert_eq!(
            of(&error(409, "key_exists", detail)),
            "the key 'a; b' belongs to job_1, which was created with another body; replace that \
             job with --replace, or choose another --key (key_exists)"
        );
        let detail = "the key 'b' belongs to batch_1, which was created with other content; choose \
                      another key";
        assert!(
            of(&error(409, "key_exists", detail))
                .ends_with("content; choose another --key (key_exists)")
        );
        for (job, flag) in [(r#"{"command": "x"}"#, "--delay 0s"), ("{}", "--http URL")] {
            let spec = serde_json::from_str(job).unwrap();
            let problem = bellwether_server::convert::definition(spec, crate::show::now());
            let said = of_problem(&problem.unwrap_err());
            assert!(said.contains(flag) && !said.contains('{'), "{said}");
        }
        let problem = Problem::new(400, "invalid_parameter", "at most 100").at("count");
        assert_eq!(of_problem(&problem), "--count: at most 100 (invalid_parameter)");
        assert_eq!(
            of(&error(404, "job_not_found", "there is none")),
            "there is none (job_not_found)"
        );
    }

    #[test]
    fn hints_fit_the_code_and_not_only_the_status() {
        assert!(hint(&error(403, "role_too_low", "")).unwrap().contains("role"));
        assert!(hint(&error(403, "other_namespace", "")).unwrap().contains("-n"));
        assert!(hint(&error(409, "last_admin_token", "")).unwrap().contains("--role admin"));
        assert!(hint(&error(409, "key_exists", "")).is_none());
        let unknown = hint(&error(503, "outcome_unknown", "")).unwrap();
        assert!(unknown.contains("look first") && !unknown.contains("again"), "{unknown}");
        assert!(hint(&error(503, "no_leader", "")).unwrap().contains("cluster status"));
        assert!(hint(&error(503, "overloaded", "")).unwrap().contains("again"));
    }
}
