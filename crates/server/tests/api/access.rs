//! Who may do what.

use bellwether_api::{Role, TokenSpec};
use bellwether_client::{Client, PageFilter};
use serde_json::json;

use crate::world::{World, config, now, spec_of};

fn with_token(world: &World, token: &str) -> Client {
    let address = world.server.local_addr().to_string();
    Client::builder().server(address).token(token).build().unwrap()
}

#[tokio::test]
async fn r42_roles_and_namespaces_are_kept() {
    let world = World::with(|config| config.require_token = true).await;
    let admin = with_token(&world, world.server.admin_token().unwrap());
    let code = |error: bellwether_client::ClientError| error.code().unwrap_or("none").to_owned();
    assert_eq!(code(world.client.job("x").await.unwrap_err()), "token_missing");
    assert_eq!(code(with_token(&world, "bw_wrong").job("x").await.unwrap_err()), "token_unknown");
    let token = async |name: &str, role, namespace: Option<&str>| {
        let spec = TokenSpec {
            name: name.into(),
            role,
            namespace: namespace.map(Into::into),
            expires_after: None,
        };
        with_token(&world, &admin.create_token(&spec).await.unwrap().secret)
    };
    let viewer = token("look", Role::Viewer, None).await;
    let operator = token("run", Role::Operator, None).await;
    let editor = token("edit", Role::Editor, Some("team")).await;
    let spec = || {
        spec_of(json!({"key": "j", "namespace": "team", "schedule": "@yearly", "command": "true"}))
    };
    assert_eq!(code(viewer.create_job(spec()).await.unwrap_err()), "role_too_low");
    assert_eq!(code(operator.create_job(spec()).await.unwrap_err()), "role_too_low");
    editor.create_job(spec()).await.unwrap();
    let own = editor.create_job(spec_of(now("true"))).await.unwrap().job;
    assert_eq!(own.spec.namespace.as_deref(), Some("team"), "the token's, if none is named");
    let mut other = spec_of(now("true"));
    other.namespace = Some("default".to_owned());
    assert_eq!(code(editor.create_job(other.clone()).await.unwrap_err()), "other_namespace");
    let hidden = admin.create_job(other).await.unwrap().job.info.id;
    assert!(editor.job(&hidden).await.unwrap_err().is_not_found(), "outsiders do not even see it");
    let team = operator.in_namespace(Some("team"));
    team.trigger_job("j").await.unwrap();
    assert_eq!(code(team.delete_job("j").await.unwrap_err()), "role_too_low");
    assert_eq!(code(editor.tokens().await.unwrap_err()), "role_too_low");
    admin.revoke_token("edit").await.unwrap();
    assert_eq!(code(editor.job("j").await.unwrap_err()), "token_unknown");
    let log = admin.audit(&PageFilter::default()).await.unwrap().items;
    let said: Vec<(&str, &str)> =
        log.iter().map(|e| (e.actor.as_str(), e.action.as_str())).collect();
    for entry in [
        ("edit", "job.create"),
        ("run", "job.trigger"),
        ("admin", "token.revoke"),
        ("admin", "token.create"),
    ] {
        assert!(said.contains(&entry), "{entry:?} is not in {said:?}");
    }
}

#[tokio::test]
async fn secrets_of_tokens_are_not_stored() {
    let world = World::with(|config| config.require_token = true).await;
    let secret = world.server.admin_token().unwrap().to_owned();
    let dir = world.dir;
    world.server.shutdown().await.unwrap();
    let mut found = false;
    let mut look = vec![dir.path().to_owned()];
    while let Some(path) = look.pop() {
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                look.push(entry.path());
            } else {
                let bytes = std::fs::read(entry.path()).unwrap();
                found |= bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            }
        }
    }
    assert!(!found, "the secret is on disk");
}

#[tokio::test]
async fn beyond_loopback_a_server_wants_tls_or_to_be_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = config(&dir);
    settings.listen = "0.0.0.0:0".parse().unwrap();
    let error = bellwether_server::start(settings.clone()).await.err().unwrap().to_string();
    assert!(error.contains("--tls-cert") && error.contains("--insecure"), "{error}");
}

#[tokio::test]
async fn other_sites_pages_cannot_reach_a_server_without_tokens() {
    let world = World::new().await;
    let address = world.server.local_addr();
    let url = format!("http://{address}/v1/jobs");
    let port = address.port();
    let own = format!("http://{address}");
    for (headers, status) in [
        (vec![], 201),
        (vec![("origin", own.as_str())], 201),
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("sec-fetch-site", "cross-site")], 403),
        (vec![("host", "rebound.example")], 403),
    ] {
        let mut request = crate::world::http_client().post(&url);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let body = json!({"schedule": {"delay": "1h"}, "command": "true"}).to_string();
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{headers:?} {port}");
    }
}

#[tokio::test]
async fn tls_is_served_with_the_certificate_given() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut settings = config(&dir);
    settings.tls = Some(bellwether_server::TlsFiles { cert: cert.clone(), key });
    settings.require_token = true;
    let server = bellwether_server::start(settings).await.unwrap();
    let address = format!("https://localhost:{}", server.local_addr().port());
    let builder =
        Client::builder().server(address).ca_file(cert).token(server.admin_token().unwrap());
    let client = builder.build().unwrap();
    assert!(client.health().await.unwrap().ready);
    assert_eq!(client.tokens().await.unwrap().items.len(), 1);
}
