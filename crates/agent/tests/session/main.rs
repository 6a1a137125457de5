//! The worker's side of the protocol, against a server that does what a test says.

#![allow(clippy::unwrap_used, missing_docs)]

mod fake;
mod refusals;

use std::time::{Duration, Instant};

use bellwether_agent::StopWhy;
use bellwether_agent::protocol::{
    Drain, Finished, Held, Report, Stop, StopReason, Stops, report, to_worker,
};

use fake::{FakeServer, Told, Worker, manners, next, options};

fn held(run: &str, token: u64) -> Held {
    Held { run: run.to_owned(), token }
}

fn finished(run: &str, token: u64) -> Report {
    let what = Some(report::What::Finished(Finished::default()));
    Report { run: run.to_owned(), token, what }
}

#[tokio::test]
async fn r51_an_attempt_goes_out_and_its_end_comes_back_once() {
    let mut server = FakeServer::start(manners(5_000));
    let mut worker = Worker::start(options(&server.address.to_string()), Vec::new());
    let mut visit = next(&mut server.visits).await;
    assert_eq!((visit.hello.name.as_str(), &visit.hello.queues[..]), ("w", &["q".to_owned()][..]));
    visit.assign("a", 7).await;
    assert_eq!(next(&mut worker.told).await, Told::Start(held("a", 7)));
    worker.handle.report(finished("b", 1));
    worker.handle.report(finished("a", 7));
    let reports = next(&mut visit.reports).await;
    assert_eq!(reports.reports, [finished("a", 7)], "what is not held is not reported");
    visit.stored(reports.number).await;
    assert_eq!(next(&mut worker.told).await, Told::Stored(held("a", 7)));
}

#[tokio::test]
async fn r52_results_survive_a_server_that_dies_before_it_has_stored_them() {
    let mut server = FakeServer::start(manners(5_000));
    let mut worker = Worker::start(options(&server.address.to_string()), vec![held("old", 1)]);
    let mut visit = next(&mut server.visits).await;
    assert_eq!(visit.hello.held, [held("old", 1)]);
    visit.assign("a", 7).await;
    next(&mut worker.told).await;
    worker.handle.report(finished("a", 7));
    next(&mut visit.reports).await;
    let address = server.kill();
    worker.handle.report(finished("old", 1));
    let mut server = FakeServer::start_at(address, manners(5_000));
    let mut visit = next(&mut server.visits).await;
    assert_eq!(visit.hello.held, [held("a", 7), held("old", 1)]);
    let mut all = Vec::new();
    while all.len() < 2 {
        let reports = next(&mut visit.reports).await;
        all.extend(reports.reports);
        visit.stored(reports.number).await;
    }
    assert_eq!(all, [finished("a", 7), finished("old", 1)]);
    assert_eq!(next(&mut worker.told).await, Told::Stored(held("a", 7)));
    assert_eq!(next(&mut worker.told).await, Told::Stored(held("old", 1)));
}

#[tokio::test]
async fn a_silent_server_means_that_work_is_stopped_before_the_lease_ends() {
    let mut silent = manners(9_000);
    silent.answers = false;
    silent.welcome.sole = false;
    let mut server = FakeServer::start(silent);
    let mut worker = Worker::start(options(&server.address.to_string()), Vec::new());
    let visit = next(&mut server.visits).await;
    visit.assign("a", 1).await;
    assert_eq!(next(&mut worker.told).await, Told::Start(held("a", 1)));
    // After each silence it dials again and is welcomed; from here on nobody takes it in.
    let cut = Instant::now();
    let _silent = std::net::TcpListener::bind(server.kill()).unwrap();
    let told = next(&mut worker.told).await;
    let Told::Stop(which, StopWhy::LeaseLost { .. }) = told else { panic!("{told:?}") };
    assert_eq!(which, held("a", 1));
    assert!(cut.elapsed() < Duration::from_millis(9_000), "{:?}", cut.elapsed());
}

#[tokio::test]
async fn r51_a_server_that_is_down_does_not_disturb_work() {
    let mut server = FakeServer::start(manners(4_000));
    let mut worker = Worker::start(options(&server.address.to_string()), Vec::new());
    let visit = next(&mut server.visits).await;
    visit.assign("a", 1).await;
    assert_eq!(next(&mut worker.told).await, Told::Start(held("a", 1)));
    let address = server.kill();
    // Three leases long nobody listens.
    let told = tokio::time::timeout(Duration::from_millis(12_000), worker.told.recv()).await;
    assert!(told.is_err(), "{told:?}");
    let mut server = FakeServer::start_at(address, manners(4_000));
    let visit = next(&mut server.visits).await;
    assert_eq!(visit.hello.held, [held("a", 1)]);
}

#[tokio::test]
async fn a_server_that_is_down_and_not_the_only_one_is_no_excuse() {
    for strict in [false, true] {
        let mut polite = manners(900);
        polite.welcome.sole = strict;
        let mut server = FakeServer::start(polite);
        let mut options = options(&server.address.to_string());
        options.strict_lease = strict;
        let mut worker = Worker::start(options, Vec::new());
        next(&mut server.visits).await.assign("a", 1).await;
        assert_eq!(next(&mut worker.told).await, Told::Start(held("a", 1)));
        server.kill();
        let told = next(&mut worker.told).await;
        assert!(matches!(told, Told::Stop(_, StopWhy::LeaseLost { .. })), "{told:?}");
    }
}

#[tokio::test]
async fn several_servers_are_tried_in_turn() {
    let mut server = FakeServer::start(manners(5_000));
    let nobody = FakeServer::start(manners(5_000)).kill();
    let mut options = options(&nobody.to_string());
    options.servers.push(server.address.to_string().parse().unwrap());
    let _worker = Worker::start(options, Vec::new());
    assert_eq!(next(&mut server.visits).await.hello.name, "w");
}

#[tokio::test]
async fn what_the_server_calls_void_is_stopped_and_not_reported() {
    let mut forgetful = manners(5_000);
    forgetful.welcome.void = vec![held("old", 1)];
    let mut server = FakeServer::start(forgetful);
    let mut worker =
        Worker::start(options(&server.address.to_string()), vec![held("old", 1), held("new", 2)]);
    worker.handle.report(finished("old", 1));
    worker.handle.report(finished("new", 2));
    let mut visit = next(&mut server.visits).await;
    assert_eq!(next(&mut worker.told).await, Told::Stop(held("old", 1), StopWhy::Void));
    assert_eq!(next(&mut visit.reports).await.reports, [finished("new", 2)]);
}

#[tokio::test]
async fn r39_stops_are_passed_on_with_their_reason() {
    let mut server = FakeServer::start(manners(5_000));
    let mut worker = Worker::start(options(&server.address.to_string()), Vec::new());
    let visit = next(&mut server.visits).await;
    let stop = |run: &str, reason: StopReason| Stop {
        run: run.to_owned(),
        token: 1,
        reason: reason.into(),
    };
    let stops = vec![stop("a", StopReason::Canceled), stop("b", StopReason::LeaseLost)];
    visit.say(to_worker::Message::Stops(Stops { stops })).await;
    let lost = StopWhy::LeaseLost { within: Duration::ZERO };
    assert_eq!(next(&mut worker.told).await, Told::Stop(held("a", 1), StopWhy::Canceled));
    assert_eq!(next(&mut worker.told).await, Told::Stop(held("b", 1), lost));
}

#[tokio::test]
async fn r48_what_goes_beyond_the_capacity_is_handed_back() {
    let mut server = FakeServer::start(manners(5_000));
    let mut worker = Worker::start(options(&server.address.to_string()), Vec::new());
    let mut visit = next(&mut server.visits).await;
    for run in ["a", "b", "c"] {
        visit.assign(run, 1).await;
    }
    assert_eq!(next(&mut worker.told).await, Told::Start(held("a", 1)));
    assert_eq!(next(&mut worker.told).await, Told::Start(held("b", 1)));
    let reports = next(&mut visit.reports).await.reports;
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].run, "c");
    assert!(matches!(reports[0].what, Some(report::What::HandedBack(_))));
}

#[tokio::test]
async fn a_worker_that_leaves_finishes_what_it_has_first() {
    for by_server in [false, true] {
        let mut server = FakeServer::start(manners(5_000));
        let mut worker = Worker::start(options(&server.address.to_string()), Vec::new());
        let mut visit = next(&mut server.visits).await;
        visit.assign("a", 1).await;
        next(&mut worker.told).await;
        if by_server {
            visit.say(to_worker::Message::Drain(Drain {})).await;
        } else {
            worker.handle.leave();
        }
        next(&mut visit.left).await;
        visit.assign("late", 1).await;
        let handed_back = next(&mut visit.reports).await;
        assert_eq!(handed_back.reports[0].run, "late");
        visit.stored(handed_back.number).await;
        assert!(!worker.session.is_finished());
        worker.handle.report(finished("a", 1));
        let reports = next(&mut visit.reports).await;
        visit.stored(reports.number).await;
        drop(visit);
        worker.ends().await.unwrap();
    }
}
