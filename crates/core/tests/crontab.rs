//! Crontabs: what real ones say, and that nothing is lost on the way in or out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

use std::collections::BTreeSet;

use bellwether_core::crontab::{Crontab, ENV_MAX, Entry, Format, parse, render};
use proptest::prelude::*;

fn only(crontab: &Crontab) -> &Entry {
    assert_eq!((crontab.entries.len(), &crontab.problems), (1, &vec![]));
    &crontab.entries[0]
}

#[test]
fn r45_a_user_crontab_imports_unchanged() {
    let crontab = parse(include_str!("crontab_user.txt"), Format::User);
    assert_eq!(crontab.problems, vec![]);
    let lines: Vec<(usize, &str, &str)> = crontab
        .entries
        .iter()
        .map(|entry| (entry.line, entry.schedule.as_str(), entry.command.as_str()))
        .collect();
    assert_eq!(
        lines,
        [
            (10, "7 0 * * *", "$HOME/bin/rotate >> $HOME/log/rotate 2>&1"),
            (13, "20 6 1 * *", "$HOME/bin/invoices"),
            (15, "30 18 * * 1-5", "mail -s \"That's it\" team"),
            (16, "40 1-23/2 * * *", "echo \"odd hours … only\""),
            (17, "10 5 * * sun", "echo \"on Sunday\""),
            (20, "@daily", "date +%F > /tmp/day"),
            (24, "*/10 9-17 * * mon-fri", "poll   --twice  "),
        ]
    );
    let [rotate, invoices, mail, .., poll] = &crontab.entries[..] else { unreachable!() };
    assert_eq!(mail.stdin.as_deref(), Some("All,\n\ntoday's figures are in.\n"));
    assert_eq!(rotate.comment.as_deref(), Some("rotate the ledger"));
    assert_eq!(invoices.comment, None, "a commented-out line is no name");
    assert_eq!(rotate.shell.as_deref(), Some("/bin/bash"));
    assert_eq!((rotate.mailto.as_deref(), poll.mailto.as_deref()), (Some("oncall"), Some("")));
    assert_eq!((&rotate.timezone, poll.timezone.as_deref()), (&None, Some("Europe/Berlin")));
    assert_eq!(poll.env["GREETING"], "  hello \"world\" ");
    assert_eq!(rotate.env.get("GREETING"), None, "a setting holds from its line on");
    assert_eq!(rotate.env["PATH"], "/usr/local/bin:/usr/bin:/bin");
}

#[test]
fn r45_a_system_crontab_has_a_user_column() {
    let text = "SHELL=/bin/sh\n17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n\
                @weekly backup tar c /srv\n25 6 * * * root\n@daily\n";
    let crontab = parse(text, Format::System);
    let [hourly, weekly] = &crontab.entries[..] else { panic!("{crontab:?}") };
    assert_eq!((hourly.user.as_deref(), hourly.schedule.as_str()), (Some("root"), "17 * * * *"));
    assert_eq!(hourly.command, "cd / && run-parts --report /etc/cron.hourly");
    assert_eq!((weekly.user.as_deref(), weekly.command.as_str()), (Some("backup"), "tar c /srv"));
    let lines: Vec<usize> = crontab.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [4, 5]);
    assert!(crontab.problems[0].reason.contains("a user and a command"));
}

#[test]
fn what_cannot_be_imported_is_reported_with_its_line() {
    let text = "@reboot /usr/bin/warm-up\n61 * * * * x\n* * * *\nhello world\n0 0 * * *\n\
                @fortnightly x\nCRON_TZ=Europe/Berln\n0 0 * * * x\nCRON_TZ=UTC\n0 0 * * * y\n\
                0 0 * * * %input only\nA=\"b\" c\n";
    let crontab = parse(text, Format::User);
    assert_eq!(crontab.entries.len(), 1);
    assert_eq!(crontab.entries[0].command, "y");
    for (line, text, reason) in [
        (1, "@reboot /usr/bin/warm-up", "@reboot is not a time"),
        (2, "61 * * * * x", "the minute field '61'"),
        (3, "* * * *", "five fields"),
        (4, "hello world", "five fields"),
        (5, "0 0 * * *", "no command"),
        (6, "@fortnightly x", "no preset"),
        (7, "CRON_TZ=Europe/Berln", "did you mean Europe/Berlin?"),
        (8, "0 0 * * * x", "CRON_TZ above"),
        (11, "0 0 * * * %input only", "no command before"),
        (12, "A=\"b\" c", "five fields"),
    ] {
        let found = crontab.problems.iter().find(|problem| problem.line == line).unwrap();
        assert_eq!(found.text, text);
        assert!(found.reason.contains(reason), "{line}: {}", found.reason);
    }
    assert_eq!(crontab.problems.len(), 10);
}

#[test]
fn percent_signs_divide_command_and_input() {
    for (line, command, stdin) in [
        ("date", "date", None),
        (r"date +\%F", "date +%F", None),
        ("cat%", "cat", Some("")),
        ("cat%a", "cat", Some("a\n")),
        ("cat%a%", "cat", Some("a\n")),
        ("cat%a%b", "cat", Some("a\nb\n")),
        ("cat%%", "cat", Some("\n")),
        (r"cat%50\% off%now", "cat", Some("50% off\nnow\n")),
        (r"printf 'a\nb'", r"printf 'a\nb'", None),
        (r"echo \\%x", r"echo \\", Some("x\n")),
        (r"echo \\\%x", r"echo \\%x", None),
        (r"cat%a\b", "cat", Some("a\\b\n")),
    ] {
        let crontab = parse(&format!("* * * * * {line}"), Format::User);
        let entry = only(&crontab);
        assert_eq!((entry.command.as_str(), entry.stdin.as_deref()), (command, stdin), "{line}");
    }
}

#[test]
fn settings_are_quoted_as_cron_does() {
    for (line, name, value) in [
        ("A=b", "A", "b"),
        ("  A = b c  ", "A", "b c"),
        ("A=\" b \"", "A", " b "),
        ("A=' b \" '", "A", " b \" "),
        ("\"A\"=b", "A", "b"),
        ("A=b # no comment", "A", "b # no comment"),
        ("A=b'c'", "A", "b'c'"),
        ("A=", "A", ""),
        ("A=\"\"", "A", ""),
        ("A=$B:/bin", "A", "$B:/bin"),
        ("A=b=c", "A", "b=c"),
    ] {
        let crontab = parse(&format!("{line}\n* * * * * x"), Format::User);
        assert_eq!(only(&crontab).env.get(name).map(String::as_str), Some(value), "{line}");
    }
    // A command with an equals sign is no setting.
    let crontab = parse("* * * * * A=b x", Format::User);
    assert_eq!(only(&crontab).command, "A=b x");
}

#[test]
fn remarks_tell_what_will_differ() {
    let crontab = parse("TZ=Asia/Tokyo\n-*/15 * * * * x\n", Format::User);
    let entry = only(&crontab);
    assert_eq!((&entry.timezone, entry.env["TZ"].as_str()), (&None, "Asia/Tokyo"));
    assert_eq!(entry.schedule, "*/15 * * * *");
    let lines: Vec<usize> = crontab.remarks.iter().map(|remark| remark.line).collect();
    assert_eq!(lines, [1, 2]);
}

#[test]
fn keys_are_readable_unique_and_keep_still() {
    let before = parse("5 2 * * * /opt/bin/backup.sh --full >/dev/null 2>&1\n", Format::User);
    let key = &only(&before).key;
    assert!(
        key.starts_with("backup-sh-full-") && key.len() == "backup-sh-full-".len() + 8,
        "{key}"
    );
    // Other times, other place, same job; the same command again is another one.
    let text = "A=b\n\n1 1 1 * * /opt/bin/backup.sh --full >/dev/null 2>&1\n\
                2 1 1 * * /opt/bin/backup.sh --full >/dev/null 2>&1\n* * * * * ((☃))\n";
    let after = parse(text, Format::User);
    assert_eq!(&after.entries[0].key, key);
    let keys: BTreeSet<&String> = after.entries.iter().map(|entry| &entry.key).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')));
}

#[test]
fn settings_are_bounded() {
    let text: String = (0..ENV_MAX + 5).map(|n| format!("V{n}=x\n")).collect();
    let crontab = parse(&(text + "* * * * * x\n"), Format::User);
    assert_eq!((crontab.entries[0].env.len(), crontab.problems.len()), (ENV_MAX, 5));
}

#[test]
fn export_says_what_a_crontab_cannot_express() {
    let entry = |schedule: &str, command: &str| Entry {
        schedule: schedule.into(),
        command: command.into(),
        ..Entry::default()
    };
    let mut zoned = entry("0 9 * * MON-FRI", "date +%F");
    zoned.timezone = Some("Asia/Tokyo".into());
    zoned.env.insert("A".into(), " b ".into());
    zoned.comment = Some("Morning".into());
    let mut input = entry("@daily", "cat");
    input.stdin = Some("100%\nsure\n".into());
    let mut unended = entry("@daily", "cat");
    unended.stdin = Some("x".into());
    let mut quoted = entry("@daily", "x");
    quoted.env.insert("Q".into(), "'\" ".into());
    let entries = [
        zoned,
        input,
        entry("*/10 * * * * *", "every ten seconds"),
        entry("every 5m", "a rate"),
        entry("H H * * *", "hashed"),
        entry("0 0 L * *", "last"),
        entry("@hourly", "two\nlines"),
        entry("@hourly", r"back\%slash"),
        unended,
        quoted,
    ];
    let text = render(&entries, Format::User);
    assert_eq!(
        text,
        r#"A=" b "
CRON_TZ=Asia/Tokyo
# Morning
0 9 * * MON-FRI date +\%F
# not in this crontab: the line below had no A, CRON_TZ
@daily cat%100\%%sure
# not in this crontab: only five fields or a preset can be written: */10 * * * * * every ten seconds
# not in this crontab: only five fields or a preset can be written: every 5m a rate
# not in this crontab: H, ?, L, W and # are not known to cron: H H * * * hashed
# not in this crontab: H, ?, L, W and # are not known to cron: 0 0 L * * last
# not in this crontab: the command has several lines: @hourly two lines
# not in this crontab: the command has a backslash before a percent sign: @hourly back\%slash
# not in this crontab: the standard input does not end with a line's end: @daily cat
# not in this crontab: the value of Q cannot be quoted: @daily x
"#
    );
    assert_eq!(parse(&text, Format::User).problems, vec![]);
}

/// Without what may change: the line's number.
fn without_lines(entries: &[Entry]) -> Vec<Entry> {
    entries.iter().map(|entry| Entry { line: 0, ..entry.clone() }).collect()
}

/// Lines as they stand in crontabs, good and bad.
fn a_line() -> impl Strategy<Value = String> {
    let schedule =
        "[0-5]?[0-9] [0-9*] [*] [*] (mon|[0-7])|[*]/[1-9] [*] [*] [*] [*]|@daily|@hourly|@reboot";
    prop_oneof![
        4 => (schedule, "[ a-z/%\\\\'\"=#$☃-]{0,30}").prop_map(|(s, command)| format!("{s} {command}")),
        2 => ("[A-Z]{1,3}", "[ a-z'\"=#]{0,12}").prop_map(|(name, value)| format!("{name}={value}")),
        1 => "#[ a-z0-9*]{0,20}",
        1 => Just("CRON_TZ=Europe/Berlin".to_owned()),
        1 => Just(String::new()),
        1 => "[^\r\n\0]{0,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics_and_loses_no_line(text in "[\\PC\n\r\t ]{0,200}", system: bool) {
        let crontab = parse(&text, if system { Format::System } else { Format::User });
        let lines = text.lines().count();
        prop_assert!(crontab.entries.len() + crontab.problems.len() <= lines);
        let _ = render(&crontab.entries, Format::System);
    }

    #[test]
    fn r45_every_line_is_accounted_for(lines in prop::collection::vec(a_line(), 0..12)) {
        let crontab = parse(&lines.join("\n"), Format::User);
        let mut seen: BTreeSet<usize> = crontab.entries.iter().map(|entry| entry.line).collect();
        seen.extend(crontab.problems.iter().map(|problem| problem.line));
        for (index, line) in lines.iter().enumerate() {
            let line = line.trim_start();
            let silent = line.is_empty() || line.starts_with('#') || line.contains('=');
            prop_assert!(silent || seen.contains(&(index + 1)), "{line}");
        }
    }

    #[test]
    fn r45_what_was_read_is_written_back(
        lines in prop::collection::vec(a_line(), 0..12), system: bool,
    ) {
        let format = if system { Format::System } else { Format::User };
        let before = parse(&lines.join("\n"), format).entries;
        let text = render(&before, format);
        let after = parse(&text, format);
        prop_assert_eq!(&after.problems, &vec![]);
        prop_assert_eq!(without_lines(&after.entries), without_lines(&before), "{}", text);
        prop_assert_eq!(render(&after.entries, format), text);
    }
}
