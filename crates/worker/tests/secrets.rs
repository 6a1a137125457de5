//! R55: credentials appear in no log, no error, no `Debug` text and nothing that is kept. Logs
//! are captured for the whole process, of every library and at every level.

#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use bellwether_worker::{Auth, CommandTarget, HttpTarget, Target};
use common::server::{plain, reply, tls};
use common::{attempt, run};

/// Every secret in this file contains this.
const NEEDLE: &str = "s3cr3t";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

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
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .init();

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

    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("attempt ended"), "the log was captured");
    assert!(log.contains("hyper"), "also that of libraries");
    // The server in this test logs nothing of its own, so every line is the client's.
    for line in log.lines() {
        assert!(!line.contains(NEEDLE), "{line}");
        assert!(!line.contains("YW5hOnMzY3IzdC"), "{line}");
    }
}
