//! `bellwether crontab import` and `export`.

use serde_json::json;

use crate::support::Server;

const CRONTAB: &str = "\
SHELL=/bin/bash
MAILTO=ops@example.com
PATH=/usr/bin:/bin
# rotate the ledger
7 0 * * * rotate >> /tmp/log 2>&1
CRON_TZ=Europe/Berlin
30 18 * * 1-5 mail -s hello team%line 1%line 2
@reboot warm-up
61 * * * * never
";

#[test]
fn r45_a_crontab_is_imported_once_and_exported_again() {
    let server = Server::start();
    let import = |flags: &[&str]| {
        let mut args = vec!["crontab", "import", "-"];
        args.extend(flags);
        server.cli_with(&args, CRONTAB)
    };
    let dry = import(&["--dry-run"]);
    assert_eq!(dry.code, 1, "lines that could not be imported are a failure: {dry:?}");
    for part in ["create", "rotate", "At 00:07", "in ", "Europe/Berlin"] {
        assert!(dry.out.contains(part), "{part} in {}", dry.out);
    }
    for part in ["line 8", "@reboot", "line 9", "minute field", "sends no mail", "dry run"] {
        assert!(dry.err.contains(part), "{part} in {}", dry.err);
    }
    assert!(
        server.cli(&["job", "list", "--json"]).json_lines().is_empty(),
        "a dry run does nothing"
    );

    let first = import(&["--group", "host1", "--prefix", "host1-"]);
    assert_eq!(first.out.matches("created").count(), 2, "{first:?}");
    let again = import(&["--group", "host1", "--prefix", "host1-"]);
    assert_eq!(again.out.matches("unchanged").count(), 2, "{again:?}");

    let jobs = server.cli(&["job", "list", "--group", "host1", "--json"]).json_lines();
    let mail = jobs.iter().find(|job| job["stdin"].is_string()).unwrap();
    assert_eq!(mail["stdin"], "line 1\nline 2\n");
    assert_eq!(mail["schedule"], json!({"cron": "30 18 * * 1-5", "timezone": "Europe/Berlin"}));
    assert_eq!(mail["labels"], json!({"mailto": "ops@example.com"}));
    assert_eq!(mail["shell"], "/bin/bash");
    assert!(mail["key"].as_str().unwrap().starts_with("host1-mail-"));

    let exported = server.cli(&["crontab", "export", "--group", "host1"]).ok();
    for part in [
        "SHELL=/bin/bash\n",
        "MAILTO=ops@example.com\n",
        "CRON_TZ=Europe/Berlin\n",
        "# rotate the ledger\n",
        "7 0 * * * rotate >> /tmp/log 2>&1\n",
        "30 18 * * 1-5 mail -s hello team%line 1%line 2\n",
    ] {
        assert!(exported.contains(part), "{part} in {exported}");
    }
    let back = ["crontab", "import", "-", "--group", "host1", "--prefix", "host1-"];
    let back = server.cli_with(&back, &exported);
    assert_eq!(
        back.out.matches("unchanged").count(),
        2,
        "what is exported imports as it was: {back:?}"
    );
}

#[test]
fn r45_the_system_format_has_users() {
    let server = Server::start();
    let text = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n";
    let rows =
        server.cli_with(&["crontab", "import", "-", "--system", "--json"], text).json_lines();
    assert_eq!(rows[0]["action"], "created");
    assert_eq!(rows[0]["job"]["user"], "root");
    let exported = server.cli(&["crontab", "export", "--system"]).ok();
    assert!(exported.contains("17 * * * * root cd / && run-parts"), "{exported}");
}

#[test]
fn what_a_crontab_cannot_say_becomes_a_comment() {
    let server = Server::start();
    server.add(&["--key", "ping", "--every", "5m", "--http", "http://127.0.0.1:1/"]);
    server.add(&["--key", "words", "--cron", "@daily", "--", "printf", "%s", "it's"]);
    server.add(&["--key", "once", "--delay", "1h", "--", "true"]);
    server.add(&["--key", "secret", "--cron", "@daily", "--env", "DB_PASSWORD=hunter2", "--", "x"]);
    server.add(&["--key", "two", "--cron", "@daily", "--", "a\nb"]);
    let exported = server.cli(&["crontab", "export"]).ok();
    for part in [
        "# not in this crontab: ping, since it does not run a command",
        "# not in this crontab: secret, since it has secrets, which the server does not show \
         (DB_PASSWORD)",
        "# not in this crontab: two, since the command has several lines",
        "# bellwether: {\"command\":[\"printf\",\"%s\",\"it's\"],\"key\":\"words\"}\n\
         @daily printf \\%s 'it'\\''s'\n",
    ] {
        assert!(exported.contains(part), "{part} in {exported}");
    }
    assert!(!exported.contains("true") && !exported.contains("***"), "{exported}");
}

/// Jobs with all that a crontab has no place for.
fn jobs_of_all_kinds(server: &Server) {
    let policies = ["--retries", "3", "--timeout", "1h", "--overlap", "queue", "--group", "g"];
    let mut flags = vec!["--key", "nightly", "--cron", "5 2 * * 6", "--timezone", "Europe/Berlin"];
    flags.extend(policies);
    flags.extend(["--description", "two\nlines", "--label", "team=bi", "--", "make-report --full"]);
    server.add(&flags);
    server.add(&[
        "--key",
        "placed",
        "--cron",
        "@daily",
        "--cwd",
        "/srv/my app",
        "--env",
        "GREETING=it's 5%",
        "--",
        "a; b",
    ]);
    server.add(&[
        "--key", "words", "--cron", "@hourly", "--user", "root", "--", "printf", "%s", "a b",
    ]);
    server.add(&["-n", "team", "--key", "nightly", "--cron", "0 0 * * *", "--", "other"]);
    server.add(&["--cron", "1 1 * * *", "--", "no key"]);
}

#[test]
fn r45_what_is_exported_imports_as_it_was() {
    let server = Server::start();
    jobs_of_all_kinds(&server);
    let exported = server.cli(&["crontab", "export"]).ok();
    for part in [
        "# not in this crontab: what cron does not know: group g, ",
        "retries 3",
        "cd '/srv/my app' || exit 1; export GREETING='it'\\''s 5\\%'; a; b\n",
    ] {
        assert!(exported.contains(part), "{part} in {exported}");
    }
    assert!(!exported.contains("HOME=") && !exported.contains("\nGREETING="), "{exported}");

    let back = server.cli_with(&["crontab", "import", "-", "--json"], &exported).json_lines();
    let actions: Vec<&str> = back.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["unchanged"; 5], "{back:#?}");
    assert_eq!(server.cli(&["job", "list", "--json"]).json_lines().len(), 5);
    assert_eq!(server.cli(&["crontab", "export"]).ok(), exported, "a second time is the same");

    // An edited line counts; what only its mark says stays.
    let edited = exported.replace("5 2 * * 6", "6 2 * * 6").replace("make-report", "make-it");
    let edited = edited.replace("; a; b\n", "; a; c\n");
    let back = server.cli_with(&["crontab", "import", "-"], &edited).ok();
    assert_eq!(back.matches("changed ").count() - back.matches("unchanged ").count(), 2, "{back}");
    let job = server.cli(&["job", "show", "nightly", "--json"]).json();
    assert_eq!((&job["command"], &job["retries"]), (&json!("make-it --full"), &json!(3)));
    assert_eq!(job["schedule"]["cron"], "6 2 * * 6");
    let job = server.cli(&["job", "show", "placed", "--json"]).json();
    let line = r"cd '/srv/my app' || exit 1; export GREETING='it'\''s 5%'; a; c";
    assert_eq!((&job["command"], &job["cwd"]), (&json!(line), &json!(null)));
}

#[test]
fn r45_an_export_moves_to_another_server() {
    let (one, two) = (Server::start(), Server::start());
    jobs_of_all_kinds(&one);
    let exported = one.cli(&["crontab", "export"]).ok();
    let back = two.cli_with(&["crontab", "import", "-", "--prefix", "one-"], &exported).ok();
    assert_eq!(back.matches("created").count(), 5, "{back}");
    let job = two.cli(&["job", "show", "one-nightly", "--json"]).json();
    assert_eq!((&job["retries"], &job["timeout"]), (&json!(3), &json!("1h")));
    two.cli(&["job", "show", "one-nightly", "-n", "team"]).ok();
    let again = two.cli_with(&["crontab", "import", "-", "--prefix", "one-"], &exported).ok();
    assert_eq!(again.matches("unchanged").count(), 5, "{again}");
}

#[test]
fn a_secret_that_a_crontab_sets_reaches_its_marked_lines() {
    let server = Server::start();
    let text = "DB_PASSWORD=hunter2\n# bellwether: {\"key\":\"k\",\"retries\":1}\n\
                @daily echo $DB_PASSWORD\n";
    let said = server.cli_with(&["crontab", "import", "-"], text).ok();
    assert!(said.contains("created"), "{said}");
    assert_eq!(server.cli(&["job", "trigger", "k", "--wait"]).ok(), "hunter2\n");
}

#[test]
fn a_line_that_cannot_become_a_job_does_not_stop_the_others() {
    let server = Server::start();
    let text = "# bellwether: {\"key\": oops}\n@daily a\n0 0 30 2 * b\n\
                # bellwether: {\"key\":\"c\"}\n@daily c\n# bellwether: {\"key\":\"c\"}\n@daily d\n";
    let said = server.cli_with(&["crontab", "import", "-"], text);
    for part in [
        "line 2 is not imported",
        "not understood",
        "line 3 is",
        "line 7 is",
        "line 5 is the job 'c'",
    ] {
        assert!(said.err.contains(part), "{part} in {}", said.err);
    }
    said.fails(1);
    assert_eq!(server.cli(&["job", "list", "--json"]).json_lines().len(), 1);
}
