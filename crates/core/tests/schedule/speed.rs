//! Prints what compiling and asking cost. Nothing is asserted: figures depend on the machine. See
//! them with `cargo test --release -p bellwether-core --test schedule speed -- --nocapture`.

use std::hint::black_box;

use crate::table;

#[test]
#[allow(clippy::disallowed_methods, reason = "measuring needs a clock, and this is a test")]
fn speed_of_compiling_and_asking() {
    const ROUNDS: u32 = 200;
    let from = table::time("2026-06-15T12:34:56Z");
    for (expression, options) in [
        ("* * * * *", ""),
        ("5 2 * * 6", ""),
        ("5 2 * * 6", "zone=Europe/Berlin"),
        ("*/5 * * * *", "zone=America/New_York"),
        ("0 0 29 2 *", "zone=Europe/Berlin"),
        ("0 0 0 1 1 * 2099", "zone=America/New_York"),
        ("0 0 * * 5L", "zone=Europe/Berlin"),
        ("H H(0-7) 15W * *", "zone=Australia/Lord_Howe"),
        ("* * * * * *", "zone=Europe/Berlin except=[* * * * 0,6]"),
        ("every 5m", ""),
        ("0 0 1 1 *", "zone=UTC"),
        ("0 0 29 2 1", "zone=Europe/Berlin days=both"),
    ] {
        let input = table::input(expression, options).unwrap();
        let begun = std::time::Instant::now();
        for _ in 0..ROUNDS {
            black_box(black_box(&input).compile().unwrap());
        }
        let compiled = begun.elapsed() / ROUNDS;
        let schedule = input.compile().unwrap();
        let begun = std::time::Instant::now();
        for _ in 0..ROUNDS {
            black_box(schedule.next_after(black_box(from)));
        }
        let asked = begun.elapsed() / ROUNDS;
        println!("{expression:20} {options:45} compile {compiled:>9.1?}  next {asked:>9.1?}");
    }
}
