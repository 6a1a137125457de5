use crate::table;
#[test]
fn probe() {
    let Ok(path) = std::env::var("PROBE") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    for l in text.lines() {
        if l.trim().is_empty() || l.starts_with('#') {
            println!("{l}");
            continue;
        }
        let c: Vec<&str> = l.split('|').map(str::trim).collect();
        let n: usize = c.get(3).and_then(|n| n.parse().ok()).unwrap_or(3);
        match table::compile(c[0], c.get(1).unwrap_or(&"")) {
            Ok(s) => {
                let tz = jiff::tz::TimeZone::get(s.timezone()).unwrap();
                let mut v: Vec<String> = s
                    .times(table::time(c[2]), n)
                    .iter()
                    .map(|t| {
                        let ts = jiff::Timestamp::from_millisecond(t.0).unwrap();
                        let z = tz.to_offset(ts);
                        if z.seconds() == 0 && s.timezone() == "UTC" {
                            let x = format!("{ts}");
                            x.strip_suffix(":00Z").map(|x| format!("{x}Z")).unwrap_or(x)
                        } else {
                            let d = z.to_datetime(ts);
                            let mut x = format!("{d}");
                            if x.ends_with(":00") {
                                x.truncate(x.len() - 3)
                            };
                            format!("{x}{z}") + if z.seconds() % 3600 == 0 { ":00" } else { "" }
                        }
                    })
                    .collect();
                if v.len() < n {
                    v.push("none".into())
                }
                println!("{} | {} | {} | {}", c[0], c.get(1).unwrap_or(&""), c[2], v.join(" "));
                eprintln!("    {}", s.describe());
            }
            Err(e) => println!(
                "{} | {} | {} | {} @{} {}",
                c[0],
                c.get(1).unwrap_or(&""),
                c.get(2).unwrap_or(&""),
                e.code,
                e.field,
                e.message
            ),
        }
    }
}
