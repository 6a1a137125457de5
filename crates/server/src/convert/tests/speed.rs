//! How long the way of a plain one-off job takes. Printed, not asserted:
//! `cargo test --release -p bellwether-server convert::tests::speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use bellwether_api::JobSpec;

use super::{NOW, definition, from_json};

#[test]
#[ignore = "prints figures; run with --release"]
fn a_plain_one_off_job() {
    const ROUNDS: u32 = 200_000;
    let body = br#"{"job_type": "email_send", "schedule_time": "2026-12-31T23:59:59Z", "payload": {"user_id": 123}, "retries": 3}"#;
    let spec: JobSpec = from_json(body).unwrap();
    for round in 0..3 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(from_json::<JobSpec>(black_box(body)).unwrap());
        }
        let parse = start.elapsed() / ROUNDS;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(definition(black_box(spec.clone()), NOW).unwrap());
        }
        let convert = start.elapsed() / ROUNDS;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let spec = from_json::<JobSpec>(black_box(body)).unwrap();
            black_box(definition(spec, NOW).unwrap());
        }
        let both = start.elapsed() / ROUNDS;
        println!("round {round}: parse {parse:?}, clone and check {convert:?}, both {both:?}");
    }
}
