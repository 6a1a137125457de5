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
    let exported = server.cli(&["crontab", "export"]).ok();
    assert!(exported.contains("# not in this crontab: ping"), "{exported}");
    assert!(exported.contains(r"@daily printf \%s 'it'\''s'"), "{exported}");
    assert!(!exported.contains("true"), "{exported}");
}
