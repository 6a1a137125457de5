//! The tables in `tests/fixtures/schedule`: ticks, refusals and words.

use bellwether_core::schedule::ScheduleError;

use crate::table::{compile, lines, time};

fn check_ticks(file: &str, text: &str) -> usize {
    let lines = lines(text, 4);
    for line in &lines {
        let [expression, options, from, expected] = &line.columns[..] else { unreachable!() };
        let place = format!("{file}:{} {expression} {options}", line.number);
        let schedule = compile(expression, options).unwrap_or_else(|e| panic!("{place}: {e}"));
        let (ticks, ends) = match expected.strip_suffix("none") {
            Some(ticks) => (ticks, true),
            None => (expected.as_str(), false),
        };
        let expected: Vec<_> = ticks.split_whitespace().map(time).collect();
        let asked = expected.len() + usize::from(ends);
        let found = schedule.times(time(from), asked);
        assert_eq!(found, expected, "{place}");
    }
    lines.len()
}

macro_rules! tick_tables {
    ($($test:ident $file:literal $at_least:literal;)*) => {$(
        #[test]
        fn $test() {
            let text = include_str!(concat!("../fixtures/schedule/", $file));
            assert!(check_ticks($file, text) >= $at_least);
        }
    )*};
}

tick_tables! {
    r1_r7_r11_fields_pick_their_times "fields.txt" 60;
    r1_day_fields_pick_their_days "days.txt" 45;
    r1_hashed_values_never_move "hashed.txt" 18;
    r9_zones_and_clock_changes "zones.txt" 75;
    r2_r3_r6_periods_instants_unions_and_exceptions "rules.txt" 45;
}

#[test]
fn what_cannot_be_used_is_refused_with_a_code_and_advice() {
    let lines = lines(include_str!("../fixtures/schedule/errors.txt"), 5);
    assert!(lines.len() >= 70);
    for line in &lines {
        let [expression, options, code, field, message] = &line.columns[..] else { unreachable!() };
        let place = format!("errors.txt:{} {expression} {options}", line.number);
        let error: ScheduleError = compile(expression, options).expect_err(&place);
        assert_eq!((error.code, error.field.as_str()), (code.as_str(), field.as_str()), "{place}");
        assert!(error.message.contains(message), "{place}: {}", error.message);
    }
}

#[test]
fn r8_schedules_read_back_in_plain_words() {
    let lines = lines(include_str!("../fixtures/schedule/words.txt"), 3);
    assert!(lines.len() >= 60);
    for line in &lines {
        let [expression, options, words] = &line.columns[..] else { unreachable!() };
        let place = format!("words.txt:{} {expression} {options}", line.number);
        assert_eq!(&compile(expression, options).expect(&place).describe(), words, "{place}");
    }
}
