//! Commands: what they get, what is kept of them, and how they fail.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use bellwether_worker::{
    CommandTarget, Control, JsonRule, LiveOutput, Outcome, ReasonCode, StopReason, Stream,
    SuccessRules, Target,
};
use common::{attempt, executor, is_alive, pids_in, run, shell, start, until};

fn code(finished: &bellwether_worker::Finished) -> ReasonCode {
    finished.outcome.failure().unwrap_or_else(|| panic!("succeeded: {finished:?}")).code
}

#[tokio::test]
async fn r46_shell_argv_and_python_run_as_processes() {
    let finished = run(shell("echo one; echo two >&2; exit 0")).await;
    assert!(finished.succeeded(), "{finished:?}");
    assert_eq!(finished.exit_code, Some(0));
    assert_eq!(finished.output.text(Some(Stream::Stdout)), "one\n");
    assert_eq!(finished.output.text(Some(Stream::Stderr)), "two\n");
    assert!(finished.started && !finished.retryable);
    assert!(finished.finished_at >= finished.started_at);

    let argv = CommandTarget::argv(["printf", "%s|", "a b", "$HOME"]);
    let finished = run(attempt(Target::Command(argv))).await;
    assert_eq!(finished.output.text(None), "a b|$HOME|", "{finished:?}");

    let python = CommandTarget::argv(["python3", "-c", "import sys; print(6 * 7); sys.exit(3)"]);
    let finished = run(attempt(Target::Command(python))).await;
    assert_eq!((finished.output.text(None).as_str(), finished.exit_code), ("42\n", Some(3)));
    assert_eq!(code(&finished), ReasonCode::ExitCode);
    assert!(finished.retryable);
}

#[tokio::test]
async fn r46_a_command_knows_its_run_and_nothing_of_the_server() {
    let mut attempt = shell("env");
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.env = vec![
        ("GREETING".into(), "hello world".into()),
        ("BELLWETHER_RUN_ID".into(), "forged".into()),
    ];
    let (run_id, instance) = (attempt.run_id.clone(), attempt.instance.clone());
    let finished = run(attempt).await;
    let text = finished.output.text(None);
    let lines: Vec<&str> = text.lines().collect();
    for expected in [
        format!("BELLWETHER_RUN_ID={run_id}"),
        format!("BELLWETHER_INSTANCE={instance}"),
        "BELLWETHER_JOB_ID=job_1".into(),
        "BELLWETHER_KEY=nightly".into(),
        "BELLWETHER_NAMESPACE=default".into(),
        "BELLWETHER_SCHEDULED_AT=2026-01-02T03:04:05.000Z".into(),
        "BELLWETHER_ATTEMPT=1".into(),
        "BELLWETHER_FENCING_TOKEN=42".into(),
        "GREETING=hello world".into(),
        "SHELL=/bin/sh".into(),
    ] {
        assert!(lines.contains(&expected.as_str()), "{expected} is not in\n{text}");
    }
    // Cargo sets many variables for this process; none of them may get through.
    assert!(!text.contains("CARGO"), "{text}");
}

#[tokio::test]
async fn r53_a_background_child_that_holds_the_pipe_does_not_delay_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let line = format!("sleep 60 & echo $! > {}; echo main", file.display());
    let begun = Instant::now();
    let finished = run(shell(&line)).await;
    assert!(finished.succeeded(), "{finished:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(finished.output.text(None), "main\n");
    // As under cron it is left running; the test ends it.
    let pid = pids_in(&file, 1).await[0];
    assert!(is_alive(pid));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn r53_a_background_child_may_go_on_printing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("survived");
    let go = directory.path().join("go");
    // It prints after the report, more than a pipe holds, and must not die of it.
    let line = format!(
        "(while [ ! -e {go} ]; do sleep 0.01; done; head -c 300000 /dev/zero; echo $? > {file}) &",
        go = go.display(),
        file = file.display()
    );
    let (executor, output) = (executor(), LiveOutput::new(1000));
    let finished = executor.execute(shell(&line), Control::new(), output).await;
    assert!(finished.succeeded(), "{finished:?}");
    fs::write(&go, "").unwrap();
    assert_eq!(pids_in(&file, 1).await, [0]);
}

#[tokio::test]
async fn r53_a_closed_stdout_neither_hangs_nor_ends_the_attempt() {
    let begun = Instant::now();
    let finished = run(shell("exec >&- 2>&-; sleep 0.3; exit 4")).await;
    assert_eq!(finished.exit_code, Some(4), "{finished:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn r46_standard_input_is_empty_or_what_was_given() {
    assert_eq!(run(shell("cat; echo end")).await.output.text(None), "end\n");

    let input: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut attempt = shell("cksum");
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.stdin = Some(input.clone().into());
    let finished = run(attempt).await;
    assert!(finished.output.text(None).ends_with(" 3000000\n"), "{finished:?}");

    // Neither a command that does not read nor one that answers while it reads may hang.
    for line in ["true", "cat | tail -c 10 | wc -c", "exec <&-; echo closed"] {
        let mut attempt = shell(line);
        let Target::Command(command) = &mut attempt.target else { unreachable!() };
        command.stdin = Some(input.clone().into());
        assert!(run(attempt).await.succeeded(), "{line}");
    }
}

#[tokio::test]
async fn r46_what_cannot_be_started_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    let headless = directory.path().join("headless");
    fs::write(&headless, "\u{1}\u{2}").unwrap();
    fs::set_permissions(&headless, fs::Permissions::from_mode(0o755)).unwrap();
    let lost = directory.path().join("lost");
    fs::write(&lost, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&lost, fs::Permissions::from_mode(0o755)).unwrap();
    let argv = |program: &str| CommandTarget::argv([program]);
    let path = |path: &std::path::Path| argv(&path.display().to_string());
    let cases = [
        (argv("no-such-program-at-all"), ReasonCode::CommandNotFound, Some(127), true),
        (argv("/no/such/program"), ReasonCode::CommandNotFound, Some(127), true),
        (path(&lost), ReasonCode::CommandNotFound, Some(127), true),
        (path(&plain), ReasonCode::NotExecutable, Some(126), true),
        (path(directory.path()), ReasonCode::NotExecutable, Some(126), true),
        (path(&headless), ReasonCode::NotExecutable, Some(126), true),
        (
            CommandTarget { cwd: Some("/no/such/directory".into()), ..argv("true") },
            ReasonCode::BadWorkingDirectory,
            None,
            false,
        ),
        (
            CommandTarget { cwd: Some(plain.clone()), ..argv("true") },
            ReasonCode::BadWorkingDirectory,
            None,
            false,
        ),
        (
            CommandTarget { user: Some("no-such-user".into()), ..argv("true") },
            ReasonCode::UnknownUser,
            None,
            false,
        ),
        (argv("nul\0byte"), ReasonCode::InvalidTarget, None, false),
        (CommandTarget::shell("x".repeat(10_000_000)), ReasonCode::InvalidTarget, None, false),
    ];
    for (target, expected, exit_code, retryable) in cases {
        let description = format!("{target:?}");
        let finished = run(attempt(Target::Command(target))).await;
        assert_eq!(code(&finished), expected, "{description}: {finished:?}");
        assert_eq!(finished.exit_code, exit_code, "{description}");
        assert_eq!(finished.retryable, retryable, "{description}");
        assert!(!finished.started, "{description}");
    }
    // A shell reports the same by its exit code.
    let finished = run(shell("no-such-program-at-all")).await;
    assert_eq!((finished.exit_code, code(&finished)), (Some(127), ReasonCode::ExitCode));
    assert!(finished.outcome.failure().unwrap().message.contains("did not find"));
}

#[tokio::test]
async fn r46_working_directory_and_relative_programs() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs::write(&script, "#!/bin/sh\necho \"$0 in $(pwd)\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut target = CommandTarget::argv(["./script"]);
    target.cwd = Some(directory.path().to_owned());
    let finished = run(attempt(Target::Command(target))).await;
    let expected = format!("./script in {}\n", directory.path().display());
    assert_eq!(finished.output.text(None), expected, "{finished:?}");

    // Without one it starts at home, wherever the server was started.
    let mut attempt = shell("pwd");
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.env = vec![("HOME".into(), directory.path().display().to_string())];
    let text = run(attempt).await.output.text(None);
    assert_eq!(text.trim(), directory.path().display().to_string());
}

#[tokio::test]
async fn r46_another_user_needs_root_and_gets_its_own_identity() {
    let mut attempt = shell("id -un; id -Gn; echo $USER $HOME; pwd");
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.user = Some("nobody".into());
    let finished = run(attempt).await;
    if nix::unistd::Uid::effective().is_root() {
        assert!(finished.succeeded(), "{finished:?}");
        let text = finished.output.text(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "nobody");
        assert!(!lines[1].contains("root"), "{text}");
        assert!(lines[2].starts_with("nobody /"), "{text}");
    } else {
        assert_eq!(code(&finished), ReasonCode::UserNotPermitted);
    }
}

#[tokio::test]
async fn r46_another_user_cannot_enter_what_it_may_not() {
    if !nix::unistd::Uid::effective().is_root() {
        let test = "r46_another_user_cannot_enter_what_it_may_not";
        return common::skipped::say(test, "only root can run commands as another user");
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut attempt = shell("pwd");
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.user = Some("nobody".into());
    command.cwd = Some(directory.path().to_owned());
    assert_eq!(code(&run(attempt).await), ReasonCode::BadWorkingDirectory);
}

#[tokio::test]
async fn r44_an_exit_code_of_zero_is_not_enough() {
    let with = |line: &str, success: SuccessRules| {
        let mut attempt = shell(line);
        attempt.success = success;
        attempt
    };
    let forbidden =
        SuccessRules { output_must_not_match: Some("^ERROR".into()), ..SuccessRules::default() };
    let finished = run(with("echo ok; echo ERROR: disk full >&2", forbidden.clone())).await;
    assert_eq!((code(&finished), finished.exit_code), (ReasonCode::OutputForbidden, Some(0)));
    assert!(run(with("echo no ERROR here", forbidden.clone())).await.succeeded());
    // The line is neither in the head nor in the tail that is kept.
    let line = "seq 20000; echo ERROR; seq 20000";
    let finished = run(with(line, forbidden)).await;
    assert!(!finished.output.text(None).contains("ERROR"));
    assert_eq!(code(&finished), ReasonCode::OutputForbidden);

    let codes = SuccessRules { exit_codes: vec![0, 2], ..SuccessRules::default() };
    assert!(run(with("exit 2", codes)).await.succeeded());
    let json = SuccessRules {
        json_path: Some(JsonRule { path: "$.ok".into(), equals: Some(true.into()) }),
        ..SuccessRules::default()
    };
    assert!(run(with("echo noise >&2; echo '{\"ok\": true}'", json.clone())).await.succeeded());
    assert_eq!(code(&run(with("echo '{\"ok\": false}'", json)).await), ReasonCode::JsonMismatch);
}

#[tokio::test]
async fn r39_a_signal_is_on_record() {
    let finished = run(shell("kill -SEGV $$")).await;
    assert_eq!((finished.signal, finished.exit_code), (Some(11), None));
    assert_eq!(code(&finished), ReasonCode::Signal);
    assert!(finished.outcome.failure().unwrap().message.contains("SIGSEGV"));
}

#[tokio::test]
async fn r37_output_can_be_followed_while_the_command_runs() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let line = format!(
        "printf 'begin\\xff\\n'; while [ ! -e {} ]; do sleep 0.01; done; echo end",
        go.display()
    );
    let mut attempt = shell(&line);
    let Target::Command(command) = &mut attempt.target else { unreachable!() };
    command.shell = Some("/bin/bash".into());
    let (_control, output, task) = start(attempt);
    let mut follower = output.follow();
    let Some(bellwether_worker::Event::Output(first)) = follower.next().await else {
        panic!("nothing came")
    };
    assert_eq!(&first.bytes[..], b"begin\xff\n");
    assert!(!task.is_finished());
    fs::write(&go, "").unwrap();
    let Some(bellwether_worker::Event::Output(last)) = follower.next().await else {
        panic!("nothing more came")
    };
    assert_eq!((&last.bytes[..], last.offset), (&b"end\n"[..], 7));
    assert_eq!(follower.next().await, None);
    assert!(task.await.unwrap().succeeded());
}

#[tokio::test]
async fn r39_an_attempt_stopped_before_it_began_does_not_begin() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ran");
    let control = Control::new();
    control.stop(StopReason::LeaseLost);
    let attempt = shell(&format!("touch {}", file.display()));
    let finished = executor().execute(attempt, control, LiveOutput::new(10)).await;
    assert!(matches!(finished.outcome, Outcome::Stopped(StopReason::LeaseLost, _)));
    assert!(!finished.started && !file.exists());
}

#[tokio::test]
async fn r39_dropping_the_future_kills_the_process_group() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let line = format!("sleep 60 & echo $! >> {f}; echo $$ >> {f}; wait", f = file.display());
    let (_control, _output, task) = start(shell(&line));
    let pids = pids_in(&file, 2).await;
    task.abort();
    until("the group is dead", || pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
}
