//! HTTP targets: what is sent, what is kept, and how requests fail.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use bellwether_worker::{
    Attempt, Auth, Control, Executor, ExecutorOptions, Finished, HttpTarget, JsonRule, LiveOutput,
    Outcome, ReasonCode, StopReason, Stream, SuccessRules, Target,
};
use common::server::{plain, raw, read_request, reply, tls};
use common::{attempt, run, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn http(target: HttpTarget) -> Attempt {
    attempt(Target::Http(target))
}

fn get(url: &str) -> HttpTarget {
    HttpTarget::new("GET", url)
}

fn code(finished: &Finished) -> ReasonCode {
    finished.outcome.failure().unwrap_or_else(|| panic!("succeeded: {finished:?}")).code
}

fn message(finished: &Finished) -> &str {
    &finished.outcome.failure().unwrap().message
}

/// An executor that trusts one more authority.
fn trusting(ca_pem: &str) -> Executor {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), ca_pem).unwrap();
    let options = ExecutorOptions {
        extra_ca_file: Some(file.path().to_owned()),
        ..ExecutorOptions::default()
    };
    Executor::new(options).unwrap()
}

#[tokio::test]
async fn r55_a_request_says_who_it_is_and_the_response_is_kept() {
    let server = plain(|_| {
        let mut reply = reply(201, "made");
        reply.headers_mut().insert("x-answer", "42".parse().unwrap());
        reply.headers_mut().insert("set-cookie", "session=abcdef".parse().unwrap());
        reply
    })
    .await;
    let mut target = HttpTarget::new("POST", format!("{}/hook?a=b", server.url));
    target.headers =
        vec![("X-Own".into(), "yes".into()), ("Idempotency-Key".into(), "forged".into())];
    target.body = "{\"n\":1}".into();
    let mut attempt = http(target);
    attempt.key = "schlüssel\n".into();
    let (run_id, idempotency_key) = (attempt.run_id.clone(), attempt.idempotency_key.clone());
    let finished = run(attempt).await;
    assert!(finished.succeeded(), "{finished:?}");

    let seen = server.only();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/hook?a=b"));
    assert_eq!(&seen.body[..], b"{\"n\":1}");
    for (name, value) in [
        ("x-own", "yes"),
        ("idempotency-key", idempotency_key.as_str()),
        ("bellwether-run-id", run_id.as_str()),
        ("bellwether-job-id", "job_1"),
        ("bellwether-namespace", "default"),
        ("bellwether-scheduled-at", "2026-01-02T03:04:05.000Z"),
        ("bellwether-attempt", "1"),
        ("bellwether-fencing-token", "42"),
        ("user-agent", concat!("bellwether/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    assert_eq!(seen.headers["bellwether-key"].as_bytes(), "schlüssel?".as_bytes());

    let response = finished.http.unwrap();
    assert_eq!((response.status, &response.body[..]), (201, &b"made"[..]));
    assert!(response.headers.contains(&("x-answer".into(), "42".into())));
    assert!(response.headers.contains(&("set-cookie".into(), "***".into())));
    assert!(!response.body_truncated && !response.headers_truncated);
    assert_eq!(finished.output.text(Some(Stream::Body)), "made");
}

#[tokio::test]
async fn r55_basic_and_bearer_authentication_over_tls() {
    let (server, ca) = tls(|seen| match seen.header("authorization") {
        "Basic YW5hOm9wZW4gc2VzYW1l" | "Bearer tok-123456" => reply(200, "come in"),
        _ => reply(401, "go away"),
    })
    .await;
    let executor = trusting(&ca);
    let send = async |auth: Option<Auth>, url: &str| {
        let target = HttpTarget { auth, ..get(url) };
        executor.execute(http(target), Control::new(), LiveOutput::new(1000)).await
    };
    let basic =
        |password: &str| Some(Auth::Basic { username: "ana".into(), password: password.into() });
    assert!(send(basic("open sesame"), &server.url).await.succeeded());
    assert!(send(Some(Auth::Bearer { token: "tok-123456".into() }), &server.url).await.succeeded());
    let finished = send(basic("wrong"), &server.url).await;
    assert_eq!(code(&finished), ReasonCode::HttpStatus);
    assert_eq!((finished.http.unwrap().status, finished.retryable), (401, false));
    let in_url = server.url.replace("https://", "https://ana:open%20sesame@");
    assert!(send(None, &in_url).await.succeeded());
    // Explicit credentials win.
    assert!(!send(basic("wrong"), &in_url).await.succeeded());
}

#[tokio::test]
async fn r55_an_unknown_authority_is_not_trusted() {
    let (server, _) = tls(|_| reply(200, "")).await;
    let finished = run(http(get(&server.url))).await;
    assert_eq!(code(&finished), ReasonCode::TlsError, "{finished:?}");
    assert!(!finished.started && finished.retryable);
    assert!(message(&finished).contains("UnknownIssuer"), "{}", message(&finished));

    let (server, ca) = tls(|_| reply(200, "")).await;
    let other_name = server.url.replace("localhost", "127.0.0.1");
    let attempt = http(get(&other_name));
    let finished = trusting(&ca).execute(attempt, Control::new(), LiveOutput::new(10)).await;
    assert_eq!(code(&finished), ReasonCode::TlsError, "{finished:?}");
}

#[tokio::test]
async fn r55_a_bad_file_of_authorities_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path().to_owned(), "/no/such/file".into()] {
        let options =
            ExecutorOptions { extra_ca_file: Some(path.clone()), ..ExecutorOptions::default() };
        let error = Executor::new(options).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn r55_redirects_are_followed_only_if_asked() {
    let server = plain(|seen| match seen.path.as_str() {
        "/there" => reply(200, "arrived"),
        "/loop" => {
            let mut reply = reply(302, "");
            reply.headers_mut().insert("location", "/loop".parse().unwrap());
            reply
        }
        _ => {
            let mut reply = reply(302, "");
            reply.headers_mut().insert("location", "/there".parse().unwrap());
            reply
        }
    })
    .await;
    let finished = run(http(get(&server.url))).await;
    assert_eq!(code(&finished), ReasonCode::HttpStatus);
    assert_eq!(finished.http.as_ref().unwrap().status, 302);
    assert_eq!(server.seen.lock().unwrap().len(), 1);

    let mut followed = get(&server.url);
    followed.follow_redirects = true;
    assert_eq!(run(http(followed)).await.output.text(None), "arrived");
    let mut endless = get(&format!("{}/loop", server.url));
    endless.follow_redirects = true;
    let finished = run(http(endless)).await;
    assert_eq!(code(&finished), ReasonCode::RedirectError, "{finished:?}");

    let mut accepted = http(get(&server.url));
    accepted.success.status_codes = vec!["3xx".into()];
    assert!(run(accepted).await.succeeded());
}

#[tokio::test]
async fn r44_status_and_body_decide() {
    let server = plain(|seen| match seen.path.as_str() {
        "/503" => reply(503, "busy"),
        "/429" => reply(429, "later"),
        "/404" => reply(404, "none"),
        _ => reply(200, "fine\nERROR: not at all\n{}"),
    })
    .await;
    for (path, retryable) in [("/503", true), ("/429", true), ("/404", false)] {
        let finished = run(http(get(&format!("{}{path}", server.url)))).await;
        assert_eq!((code(&finished), finished.retryable), (ReasonCode::HttpStatus, retryable));
        assert!(message(&finished).contains(&path[1..]));
    }
    let mut attempt = http(get(&server.url));
    attempt.success.output_must_not_match = Some("^ERROR".into());
    assert_eq!(code(&run(attempt).await), ReasonCode::OutputForbidden);

    let json = plain(|_| reply(200, r#"{"status": "done", "left": 0}"#)).await;
    let with = |equals: &str| {
        let mut attempt = http(get(&json.url));
        let rule = JsonRule { path: "$.status".into(), equals: Some(equals.into()) };
        attempt.success = SuccessRules { json_path: Some(rule), ..SuccessRules::default() };
        attempt
    };
    assert!(run(with("done")).await.succeeded());
    assert_eq!(code(&run(with("failed")).await), ReasonCode::JsonMismatch);
}

#[tokio::test]
async fn r55_connection_errors_have_their_own_words() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://user:hunter22@127.0.0.1:{port}/path?token=hunter23");
    let finished = run(http(get(&url))).await;
    assert_eq!(code(&finished), ReasonCode::ConnectError, "{finished:?}");
    assert!(message(&finished).contains(&format!("http://127.0.0.1:{port}/path")));
    assert!(message(&finished).contains("refused"), "{}", message(&finished));
    assert!(!message(&finished).contains("hunter"));
    assert!(!finished.started && finished.retryable);

    let finished = run(http(get("http://no-such-host.invalid/"))).await;
    assert_eq!(code(&finished), ReasonCode::DnsError, "{finished:?}");

    let garbage = raw(async |mut socket| {
        socket.write_all(b"this is not HTTP\r\n\r\n").await.ok();
    })
    .await;
    let finished = run(http(get(&format!("http://127.0.0.1:{garbage}/")))).await;
    assert_eq!(code(&finished), ReasonCode::HttpProtocol, "{finished:?}");
    assert!(finished.started, "the target may have acted");

    let cut_short = raw(async |mut socket| {
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello").await.ok();
    })
    .await;
    let finished = run(http(get(&format!("http://127.0.0.1:{cut_short}/")))).await;
    assert_eq!(code(&finished), ReasonCode::HttpProtocol, "{finished:?}");
    assert_eq!(finished.http.unwrap().status, 200);
}

#[tokio::test]
async fn r55_a_handshake_that_never_comes_is_a_connect_timeout() {
    let silent = raw(async |mut socket| {
        let mut nothing = [0; 4096];
        while socket.read(&mut nothing).await.is_ok_and(|read| read > 0) {}
    })
    .await;
    let mut target = get(&format!("https://127.0.0.1:{silent}/"));
    target.connect_timeout = Duration::from_millis(200);
    let finished = run(http(target)).await;
    assert_eq!(code(&finished), ReasonCode::ConnectTimeout, "{finished:?}");
    assert!(!finished.started);
}

#[tokio::test]
async fn r55_a_response_that_trickles_times_out() {
    let slow = raw(async |mut socket| {
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await.ok();
        let mut trickle = tokio::time::interval(Duration::from_millis(20));
        while socket.write_all(b"x").await.is_ok() {
            trickle.tick().await;
        }
    })
    .await;
    let mut attempt = http(get(&format!("http://127.0.0.1:{slow}/")));
    attempt.timeout = Some(Duration::from_millis(400));
    let begun = Instant::now();
    let finished = run(attempt).await;
    assert!(matches!(finished.outcome, Outcome::TimedOut(_)), "{finished:?}");
    assert_eq!(code(&finished), ReasonCode::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn r55_an_endless_body_is_cut_and_ends() {
    let endless = raw(async |mut socket| {
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.ok();
        while socket.write_all(&[b'x'; 65536]).await.is_ok() {}
    })
    .await;
    let mut target = get(&format!("http://127.0.0.1:{endless}/"));
    target.body_limit = 1000;
    let finished = run(http(target)).await;
    assert!(finished.succeeded(), "{finished:?}");
    let response = finished.http.unwrap();
    assert_eq!((response.body.len(), response.body_truncated), (1000, true));
}

#[tokio::test]
async fn r55_many_headers_are_cut() {
    let server = plain(|_| {
        let mut reply = reply(200, "");
        for number in 0..60 {
            let name = hyper::header::HeaderName::from_bytes(format!("x-{number}").as_bytes());
            reply.headers_mut().insert(name.unwrap(), "v".repeat(1000).parse().unwrap());
        }
        reply
    })
    .await;
    let response = run(http(get(&server.url))).await.http.unwrap();
    assert!(response.headers_truncated);
    assert!(response.headers.len() < 20);
}

#[tokio::test]
async fn r39_stopping_aborts_the_request() {
    let (closed, mut is_closed) = tokio::sync::mpsc::unbounded_channel();
    let silent = raw(move |mut socket| {
        let closed = closed.clone();
        async move {
            let mut request = [0; 4096];
            while socket.read(&mut request).await.is_ok_and(|read| read > 0) {
                closed.send("asked").ok();
            }
            closed.send("closed").ok();
        }
    })
    .await;
    let (control, _, task) = start(http(get(&format!("http://127.0.0.1:{silent}/"))));
    assert_eq!(is_closed.recv().await, Some("asked"));
    control.stop(StopReason::Canceled);
    let finished = task.await.unwrap();
    assert!(matches!(finished.outcome, Outcome::Stopped(StopReason::Canceled, _)));
    assert!(finished.started);
    assert_eq!(is_closed.recv().await, Some("closed"));
}

#[tokio::test]
async fn r55_what_cannot_be_sent_is_refused_before_and_at_the_attempt() {
    let bad_header = |name: &str, value: &str| HttpTarget {
        headers: vec![(name.into(), value.into())],
        ..get("http://localhost/")
    };
    let bearer = |token: &str| Auth::Bearer { token: token.into() };
    let cases = [
        get("ftp://localhost/"),
        get("file:///etc/passwd"),
        get("not a url"),
        get("http://"),
        HttpTarget::new("CONNECT", "http://localhost/"),
        HttpTarget::new("get", "http://localhost/"),
        bad_header("bad name", "value"),
        bad_header("", "value"),
        bad_header("x-injected", "a\r\nx-more: b"),
        bad_header("content-length", "7"),
        HttpTarget { auth: Some(bearer("to\nken")), ..get("http://localhost/") },
        HttpTarget { auth: Some(bearer("t")), ..bad_header("Authorization", "Basic x") },
    ];
    for target in cases {
        let description = format!("{target:?}");
        assert!(Target::Http(target.clone()).validate().is_err(), "{description}");
        let finished = run(http(target)).await;
        assert_eq!(code(&finished), ReasonCode::InvalidTarget, "{description}");
        assert!(!finished.started && !finished.retryable, "{description}");
    }
}
