//! Secrets leave neither through answers nor through problems, and survive edits.

use bellwether_api::{JobSpec, MASK};
use bellwether_core::record::{Definition, Target};
use serde_json::{Value, json};

use super::super::{definition, patched, spec, unmask};
use super::{NOW, check, checked, from_json};

/// A word that stands in every secret below and nowhere else.
const SECRET: &str = "hunter2";

fn http() -> Value {
    json!({
        "schedule": "@daily",
        "http": {
            "url": format!("https://ana:{SECRET}@example.com/hook?token={SECRET}&page=2"),
            "headers": {"X-Api-Key": SECRET, "Accept": "text/plain", "Cookie": format!("s={SECRET}")},
            "auth": {"basic": {"username": "ana", "password": SECRET}},
        }
    })
}

fn bearer() -> Value {
    json!({"schedule": "@daily", "http": {"url": "https://a/", "auth": {"bearer": SECRET}}})
}

fn command() -> Value {
    json!({
        "schedule": "@daily",
        "command": "true",
        "env": {
            "DB_PASSWORD": SECRET,
            "LANG": "C",
            "DATABASE_URL": format!("postgres://u:{SECRET}@db/x"),
            "EMPTY_TOKEN": "",
        }
    })
}

/// An edit with a body that was read from an answer.
fn put_back(old: &Definition, body: &Value) -> Result<Definition, bellwether_api::Problem> {
    let mut new: JobSpec = from_json(body.to_string().as_bytes())?;
    unmask(&mut new, old)?;
    Ok(definition(new, NOW)?.definition)
}

#[test]
fn r55_answers_hold_no_secret_and_can_be_sent_back() {
    for body in [http(), bearer(), command()] {
        let old = checked(&body.to_string());
        assert!(!format!("{old:?}").contains(SECRET));
        let answer = serde_json::to_value(spec(&old.definition, true)).unwrap();
        assert!(!answer.to_string().contains(SECRET), "{answer}");
        assert!(answer.to_string().contains(MASK));
        assert_eq!(put_back(&old.definition, &answer).unwrap(), old.definition);
    }
}

#[test]
fn r55_a_mask_where_nothing_is_stored_is_an_error() {
    let old = checked(r#"{"command": "true", "schedule": "@daily"}"#).definition;
    for (body, field) in [
        (json!({"command": "true", "schedule": "@daily", "env": {"API_KEY": MASK}}), "env.API_KEY"),
        (
            json!({"schedule": "@daily", "http": {"url": "http://a", "auth": {"bearer": MASK}}}),
            "http.auth.bearer",
        ),
    ] {
        for problem in [put_back(&old, &body).unwrap_err(), check(&body.to_string()).unwrap_err()] {
            assert_eq!(problem.code, "masked_secret");
            assert_eq!(problem.field.as_deref(), Some(field));
        }
    }
    // A text of stars that is not in the place of a secret is a text of stars.
    let stars = json!({"command": "true", "schedule": "@daily", "env": {"LANG": MASK}});
    assert!(put_back(&old, &stars).is_ok());
}

#[test]
fn r55_secrets_do_not_follow_a_request_to_another_server() {
    let old = checked(&http().to_string()).definition;
    let mut answer = serde_json::to_value(spec(&old, true)).unwrap();
    answer["http"]["url"] = "https://elsewhere.example/hook".into();
    let problem = put_back(&old, &answer).unwrap_err();
    assert_eq!(problem.code, "masked_secret");
    assert!(problem.detail.contains("another server"), "{problem}");
    // Another path of the same server is fine.
    answer["http"]["url"] = "https://example.com/other".into();
    let Some(Target::Http(moved)) = put_back(&old, &answer).unwrap().target else { panic!() };
    assert_eq!(moved.basic.unwrap().password, SECRET);
}

#[test]
fn r55_a_patch_keeps_secrets_it_does_not_touch() {
    let old = checked(&http().to_string()).definition;
    let patch = json!({"http": {"method": "put", "headers": {"Accept": null, "X-New-Token": "n"}}});
    let mut new = patched(&old, true, patch).unwrap();
    unmask(&mut new, &old).unwrap();
    let Some(Target::Http(new)) = definition(new, NOW).unwrap().definition.target else { panic!() };
    let Some(Target::Http(old)) = old.target else { panic!() };
    assert_eq!((new.url, new.basic, new.method.as_str()), (old.url, old.basic, "PUT"));
    let names: Vec<&str> = new.headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["Cookie", "X-Api-Key", "X-New-Token"]);
    assert_eq!(new.headers[1].value, SECRET);
}

#[test]
fn r55_problems_hold_no_secret() {
    for body in [
        json!({"http": {"url": "http://a", "auth": SECRET}}),
        json!({"http": {"url": "http://a", "auth": {"basic": SECRET}}}),
        json!({"http": {"url": "http://a", "auth": {"bearer": [SECRET]}}}),
        json!({"http": {"url": format!("http://u:{SECRET}@a:x/")}, "schedule": "@daily"}),
        json!({"http": {"url": format!("http://u:{SECRET}@/")}, "schedule": "@daily"}),
        json!({"http": {"url": format!("u:{SECRET}@a/")}, "schedule": "@daily"}),
        json!({"http": {"url": "http://a", "headers": {"Cookie": format!("{SECRET}\n")}}, "schedule": "@daily"}),
        json!({"http": {"url": "http://a", "auth": {"bearer": format!("{SECRET}\n")}}, "schedule": "@daily"}),
        json!({"command": "true", "env": {"TOKEN": format!("{SECRET}\0")}, "schedule": "@daily"}),
        json!({"retries": SECRET}),
        json!({"enabled": SECRET}),
    ] {
        let problem = check(&body.to_string()).unwrap_err();
        assert!(!format!("{problem:?} {problem}").contains(SECRET), "{problem:?}");
    }
    // Numbers are secrets too.
    let body = r#"{"http": {"url": "http://a", "auth": {"bearer": 7012345}}}"#;
    assert!(!format!("{:?}", check(body).unwrap_err()).contains("7012345"));
}
