//! Writing figures down.

use super::figures::Figure;

/// A figure in a line.
#[must_use]
pub fn line(figure: &Figure) -> String {
    format!("{:<58} {:>14} {}", figure.what, number(figure.value), figure.unit)
}

/// All figures as a table in Markdown.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let mut text = String::from("| what | measured | target |\n|---|---|---|\n");
    for figure in figures {
        text.push_str(&format!(
            "| {} | {} {} | {} |\n",
            figure.what,
            number(figure.value),
            figure.unit,
            figure.target.unwrap_or("")
        ));
    }
    text
}

/// Three or four significant digits, thousands apart.
fn number(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        let digits = format!("{value:.0}");
        let mut text = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(999.94), "999.9");
        assert_eq!(number(1.5), "1.500");
    }
}
