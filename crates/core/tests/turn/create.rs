//! Creating jobs: ids, keys, audit (R15–R19, R23, R70).

use bellwether_core::id::JobId;
use bellwether_core::key::{self, TagKind};
use bellwether_core::record::KeyRow;
use bellwether_core::turn::{Created, Input, NewJob, RejectionKind, Reply};
use bellwether_core::waist::{Family, View};

use crate::world::job::{ANA, run};
use crate::world::{Crash, SHARD, World, job, t};

#[test]
fn r16_ids_carry_the_shard_and_sort_by_time() {
    let mut w = World::new();
    let ids: Vec<JobId> = (0..5)
        .map(|n| {
            w.until(n);
            w.add(job().at(t(1_000)))
        })
        .collect();
    assert!(ids.windows(2).all(|two| two[0] < two[1]));
    assert!(ids.iter().all(|id| id.shard() == SHARD));
    assert_eq!(ids[3].time(), t(3));
}

#[test]
fn r70_the_same_key_and_body_is_the_same_job_in_every_stage() {
    let mut w = World::new();
    let once = job().at(t(10)).key("order-1");
    let cron = job().cron("* * * * *").key("nightly");
    let ids = [w.add(once.clone()), w.add(cron.clone())];
    for second in [5, 10, 70] {
        w.until(second);
        for (job, id) in [&once, &cron].into_iter().zip(ids) {
            assert_eq!(w.try_add(job), Ok(Created { job: id, new: false }));
        }
    }
    w.succeed(run(ids[0], 1));
    assert_eq!(w.try_add(&once), Ok(Created { job: ids[0], new: false }), "also when it is over");
    for other in [once.about("changed"), cron.about("changed")] {
        let refused = w.try_add(&other).unwrap_err();
        assert_eq!((&*refused.code, refused.kind), ("key_exists", RejectionKind::Conflict));
    }
    assert_eq!(w.actions(), ["job.create", "job.create"]);
}

#[test]
fn r17_keys_are_unique_in_a_namespace_only() {
    let mut w = World::new();
    let a = w.add(job().at(t(10)).key("k").namespace("a"));
    let b = w.add(job().at(t(10)).key("k").namespace("b"));
    assert_ne!(a, b);
}

#[test]
fn r70_a_key_is_free_again_after_deletion_and_after_its_history() {
    let mut w = World::new();
    let deleted = w.add(job().at(t(10)).key("k"));
    w.delete(deleted);
    let cron = w.add(job().cron("* * * * *").key("k"));
    w.delete(cron);
    let next = w.add(job().at(t(20)).key("k"));
    w.until(20);
    w.succeed(run(next, 1));
    w.until(9 * 86_400);
    w.prune();
    let last = w.add(job().at(t(9 * 86_400 + 5)).key("k"));
    assert!(last > next);
}

#[test]
fn r29_a_batch_takes_each_job_on_its_own() {
    let mut w = World::new();
    let bad = job().cron("0 0 30 2 *");
    let jobs = vec![
        job().at(t(5)).key("k").request(),
        bad.request(),
        job().at(t(5)).key("k").request(),
        job().at(t(5)).namespace("b").request(),
        job().at(t(5)).namespace("b").request(),
    ];
    let Reply::Created(results) = w.tell(Input::Create { actor: ANA.into(), jobs }) else {
        panic!()
    };
    let new: Vec<Option<bool>> =
        results.iter().map(|result| result.as_ref().ok().map(|created| created.new)).collect();
    assert_eq!(new, [Some(true), None, Some(false), Some(true), Some(true)]);
    let audits = w.audits();
    assert_eq!(audits.len(), 2, "an entry a namespace");
    assert_eq!((audits[0].namespace.as_str(), audits[0].jobs.len()), ("b", 2));
}

#[test]
fn r23_jobs_are_listed_by_what_they_say() {
    let mut w = World::new();
    let id = w.add(job().at(t(5)).owner("ana").group("g").namespace("n").label("team", "bi"));
    for (kind, value) in [
        (TagKind::Namespace, ""),
        (TagKind::Owner, "ana"),
        (TagKind::Group, "g"),
        (TagKind::Label, "team=bi"),
    ] {
        let (from, to) = key::tagged(SHARD, kind, "n", value, None);
        assert_eq!(w.store.scan(Family::Tag, &from, &to).count(), 1, "{kind:?}");
    }
    w.delete(id);
    assert_eq!(w.store.count(Family::Tag), 0);
}

/// A job of another shard for which a key is kept here.
fn foreign(n: u16) -> JobId {
    JobId::new(t(0), SHARD + 1, n)
}

fn reserve(w: &mut World, job: JobId, replace: Option<JobId>) -> Created {
    let (namespace, key) = ("default".to_owned(), "k".to_owned());
    match w.tell(Input::ReserveKey { namespace, key, job, replace }) {
        Reply::Created(mut results) => results.remove(0).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r21_a_key_reserved_for_another_shard_is_taken() {
    let mut w = World::new();
    assert!(reserve(&mut w, foreign(1), None).new);
    assert!(reserve(&mut w, foreign(1), None).new, "asking again is no conflict");
    assert_eq!(reserve(&mut w, foreign(2), None), Created { job: foreign(1), new: false });
    let refused = w.try_add(&job().at(t(50)).key("k")).unwrap_err();
    assert_eq!(refused.kind, RejectionKind::Busy, "its job is about to be created elsewhere");
    let early = reserve(&mut w, foreign(2), Some(foreign(1)));
    assert!(!early.new, "a reservation holds for a while");
    w.until(40);
    assert!(reserve(&mut w, foreign(2), Some(foreign(1))).new, "its job never came");
    let (namespace, key) = ("default".to_owned(), "k".to_owned());
    w.tell(Input::FreeKey { namespace, key, job: foreign(1) });
    let row: KeyRow = w.store.read(Family::Key, &key::caller_key(SHARD, "default", "k")).unwrap();
    assert_eq!(JobId(row.job), foreign(2), "only its holder frees it");
}

#[test]
fn r21_a_job_with_a_reserved_id_is_created_once_and_in_time() {
    let mut w = World::new();
    w.keys_elsewhere = true;
    let id = JobId::new(t(0), SHARD, 77);
    let new = |until| NewJob {
        reserved: Some((id, t(until))),
        ..job().at(t(50)).key("k").ordering("o").request()
    };
    w.until(1);
    assert_eq!(w.try_create(new(20)), Ok(Created { job: id, new: true }));
    assert_eq!(w.try_create(new(20)), Ok(Created { job: id, new: false }));
    let delete = Input::Delete { actor: ANA.into(), job: id };
    let create = Input::Create { actor: ANA.into(), jobs: vec![new(20)] };
    let replies = w.turn(vec![delete, create], Crash::No).unwrap();
    let Ok(Reply::Created(results)) = &replies[1] else { panic!("{replies:?}") };
    assert_eq!(results[0].as_ref().unwrap_err().code, "try_again", "it is being deleted");
    w.settle();
    w.until(30);
    assert_eq!(w.try_create(new(20)).unwrap_err().code, "try_again", "too late");
}

#[test]
fn tokens_are_stored_once_and_revoked() {
    let mut w = World::new();
    let token = bellwether_core::record::TokenRow { name: "ci".into(), ..Default::default() };
    let put = Input::PutToken { actor: ANA.into(), token };
    w.tell(put.clone());
    assert_eq!(w.ask(put).unwrap_err().code, "token_exists");
    let revoke = Input::RevokeToken { actor: ANA.into(), name: "ci".into(), keep_admin: true };
    w.tell(revoke.clone());
    assert_eq!(w.ask(revoke).unwrap_err().code, "token_not_found");
    assert_eq!(w.actions(), ["token.create", "token.revoke"]);
}

#[test]
fn r42_the_last_admin_token_stays() {
    let mut w = World::new();
    let put = |name: &str, role: &str, namespace: &str, expires_ms| Input::PutToken {
        actor: ANA.into(),
        token: bellwether_core::record::TokenRow {
            name: name.into(),
            role: role.into(),
            namespace: namespace.into(),
            expires_ms,
            ..Default::default()
        },
    };
    let revoke = |name: &str, keep_admin| Input::RevokeToken {
        actor: ANA.into(),
        name: name.into(),
        keep_admin,
    };
    w.until(10);
    for token in [
        put("a", "admin", "", None),
        put("b", "admin", "", None),
        put("team", "admin", "team", None),
        put("old", "admin", "", Some(t(5).0)),
        put("look", "viewer", "", None),
    ] {
        w.tell(token);
    }
    let replies = w.turn(vec![revoke("a", true), revoke("b", true)], Crash::No).unwrap();
    assert!(replies[0].is_ok());
    let code = &replies[1].as_ref().unwrap_err().code;
    assert_eq!(code, "last_admin_token", "not even in the same turn");
    for other in ["old", "team", "look"] {
        w.tell(revoke(other, true));
    }
    w.tell(revoke("b", false));
}
