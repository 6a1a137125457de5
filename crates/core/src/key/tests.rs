//! Keys sort as they should and read back.

use super::*;

#[test]
fn keys_sort_as_their_parts_do() {
    let id = JobId::new(Time(5), 3, 1);
    let due = |ms| DueKey { time: Time(ms), kind: DueKind::Tick, job: id, n: 0 }.key(3);
    assert!(due(-1) < due(0) && due(0) < due(1) && due(255) < due(256));
    let order = |key: &str, ms| order(3, "a", key, Time(ms), RunId { job: id, n: 1 });
    assert!(order("x", 9) < order("xy", 1), "texts are never prefixes of one another");
    let texts = ["", "\0", "\0\u{1}", "\0\u{ff}", "a", "a\0", "a\0b", "a-b", "a/b", "ab", "b"];
    let mut sorted = texts.map(|text| group(3, text, "x"));
    sorted.sort();
    assert_eq!(sorted, texts.map(|text| group(3, text, "x")), "texts sort as texts");
}

#[test]
fn keys_read_back() {
    let job = JobId::new(Time(1_794_700_000_000), 7, 9);
    let run_id = RunId { job, n: 12 };
    for n in [0, 4] {
        let due = DueKey { time: Time(-3), kind: DueKind::Retry, job, n };
        assert_eq!(DueKey::read(&due.key(7)).unwrap(), due);
    }
    let place = Place { class: 168, time: Time(44), run: run_id };
    assert_eq!(Place::read(&place.history()).unwrap(), place);
    assert_eq!(read_output(&place.output(2, 9)).unwrap(), (2, 9));
    assert_eq!(read_run(&run(run_id)).unwrap(), (job, Some(12)));
    assert_eq!(read_run(&super::job(job)).unwrap(), (job, None));
    assert_eq!(read_tick(&tick(job, Time(8), 0)).unwrap(), Time(8));
    let tag = tag(TagKind::Owner, "ns", "ana", job);
    assert_eq!(read_tag(&tag).unwrap(), ("ns".into(), "ana".into(), job));
    let ordered = order(7, "ns", "k", Time(1), run_id);
    assert_eq!(read_order(&ordered).unwrap(), run_id);
    assert_eq!(read_dead(&dead(Time(6), run_id)).unwrap(), (Time(6), run_id));
    assert_eq!(read_held(&held("ns", "g", job)).unwrap(), job);
    assert_eq!(read_group(&group(7, "ns", "g")).unwrap(), ("ns".into(), "g".into()));
    assert_eq!(read_caller_key(&caller_key(7, "ns", "k")).unwrap(), ("ns".into(), "k".into()));
    for text in ["", "\0", "a\0\u{1}b", "ü\0"] {
        let (namespace, name) = read_group(&group(7, text, text)).unwrap();
        assert_eq!((&*namespace, &*name), (text, text));
    }
    let unfinished = group(7, "ns", "g");
    assert!(read_group(&unfinished[..unfinished.len() - 1]).is_err());
    assert!(DueKey::read(b"short").is_err());
}

#[test]
fn the_runs_of_a_job_leave_its_own_row_out() {
    let id = JobId::new(Time(5), 3, 1);
    let (from, to) = runs(id);
    let row = job(id);
    assert!(row < from);
    let first = run(RunId { job: id, n: 1 });
    let last = run(RunId { job: id, n: u32::MAX });
    assert!(first >= from && last < to);
}
