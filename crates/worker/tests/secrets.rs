//! R55: credentials appear in no log, no error, no `Debug` text and nothing that is kept. Logs
//! are captured for the whole process, of every library and at every level.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpListener;

use bellwether_worker::{Auth, Broker, CommandTarget, HttpTarget, PublishTarget, Target};
use common::server::{plain, reply, tls};
use common::{Log, attempt, brokers, run};

/// Every secret in this file contains this.
const NEEDLE: &str = "s3cr3t";

fn targets(url: &str) -> Vec<HttpTarget> {
    let target = HttpTarget::new("POST", url);
    let basic = Auth::Basic { username: "ana".into(), password: format!("{NEEDLE}-1") };
    let header = ("X-Api-Key".to_owned(), format!("{NEEDLE}-3"));
    let in_url = url.replace("://", &format!("://ana:{NEEDLE}-4@"));
    vec![
        HttpTarget { auth: Some(basic), ..target.clone() },
        HttpTarget { auth: Some(Auth::Bearer { token: format!("{NEEDLE}-2") }), ..target.clone() },
        HttpTarget { headers: vec![header], ..target.clone() },
        HttpTarget { url: format!("{in_url}/?token={NEEDLE}-5"), ..target.clone() },
        HttpTarget { body: format!("{NEEDLE}-6").into(), ..target },
    ]
}

#[tokio::test]
async fn r55_secrets_are_nowhere() {
    let log = Log::capture();

    // A server that sends back every header it got, in headers and body.
    let echo = plain(|seen| {
        let mut reply = reply(200, format!("{:?}", seen.headers));
        *reply.headers_mut() = seen.headers.clone();
        reply.headers_mut().remove("content-length");
        reply
    })
    .await;
    let (untrusted, _) = tls(|_| reply(200, "")).await;
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = format!("http://127.0.0.1:{port}");
    let moved = plain(|seen| {
        let mut reply = reply(if seen.path == "/end" { 200 } else { 302 }, "");
        reply.headers_mut().insert("location", "/end".parse().unwrap());
        reply
    })
    .await;
    for url in [&echo.url, &untrusted.url, &refused, &moved.url] {
        for target in targets(url) {
            let target = HttpTarget { follow_redirects: *url == moved.url, ..target };
            let attempt = attempt(Target::Http(target));
            let shown = format!("{attempt:?}");
            assert!(!shown.contains(NEEDLE), "{shown}");
            let finished = run(attempt).await;
            let kept = format!(
                "{finished:?} {} {:?}",
                finished.output.text(None),
                finished.http.as_ref().map(|http| (&http.headers, &http.body)),
            );
            assert!(!kept.contains(NEEDLE), "{kept}");
        }
    }
    assert!(echo.seen.lock().unwrap().iter().any(|seen| !seen.header("x-api-key").is_empty()));

    let mut command = CommandTarget::argv(["true", &format!("{NEEDLE}-7")]);
    command.env = vec![("PASSWORD".into(), format!("{NEEDLE}-8"))];
    command.stdin = Some(format!("{NEEDLE}-9").into());
    let attempt = attempt(Target::Command(command));
    assert!(!format!("{attempt:?}").contains(NEEDLE));
    assert!(run(attempt).await.succeeded());

    for (password, jetstream) in [("x", true), (NEEDLE, true), (NEEDLE, false)] {
        let broker = brokers::nats(Some(password)).await;
        let url = format!("nats://ana:{NEEDLE}@127.0.0.1:{}", broker.port);
        let nats = Broker::Nats { url, subject: "news".into(), jetstream };
        // Headers and bodies are in the library's own log at the finest level, which whoever
        // starts the log leaves out.
        let target = PublishTarget::new(nats, "");
        let attempt = common::attempt(Target::Publish(target));
        assert!(!format!("{attempt:?}").contains(NEEDLE));
        let finished = run(attempt).await;
        assert_eq!(finished.succeeded(), !jetstream, "{:?}", finished.outcome);
        assert!(!format!("{finished:?}").contains(NEEDLE), "{finished:?}");
    }

    let log = log.text();
    assert!(log.contains("attempt ended"), "the log was captured");
    assert!(log.contains("hyper") && log.contains("async_nats"), "also that of libraries");
    // The server in this test logs nothing of its own, so every line is the client's.
    for line in log.lines() {
        assert!(!line.contains(NEEDLE), "{line}");
        assert!(!line.contains("YW5hOnMzY3IzdC"), "{line}");
    }
}
