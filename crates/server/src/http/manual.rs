//! The manual, served by the server that it is about: `/docs/errors` is where problems point to.

use std::fmt::Write as _;

use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::answer::no_such_path;

macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../docs/", $name, ".md")))),+]
    };
}

/// Names as in the path, and what they say.
const PAGES: [(&str, &str); 16] = pages![
    "backup",
    "batches",
    "benchmarks",
    "cli",
    "cluster",
    "configuration",
    "crontab",
    "errors",
    "guarantees",
    "limits",
    "operations",
    "schedules",
    "sdk-python",
    "sdk-rust",
    "targets",
    "workers",
];

/// A page of the manual.
pub async fn page(Path(name): Path<String>, uri: axum::http::Uri) -> Response {
    match PAGES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Html(render(text)).into_response(),
        None => no_such_path(uri).await.into_response(),
    }
}

fn render(text: &str) -> String {
    let title = text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
    let mut links = String::new();
    for (name, _) in PAGES {
        // Writing to a string cannot fail.
        let _ = write!(links, r#"<a href="/docs/{name}">{name}</a>"#);
    }
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    for at in 0..events.len() {
        let is_heading = matches!(events[at], Event::Start(Tag::Heading { .. }));
        let name = is_heading.then(|| heading(&events[at..]));
        match &mut events[at] {
            Event::Start(Tag::Link { dest_url, .. }) => *dest_url = served(dest_url.clone()),
            Event::Start(Tag::Heading { id, .. }) => *id = name.map(Into::into),
            _ => {}
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    include_str!("manual.html")
        .replace("{title}", title)
        .replace("{links}", &links)
        .replace("{body}", &body)
}

/// What a heading is called in links: its words in small letters, with hyphens.
fn heading(events: &[Event<'_>]) -> String {
    let mut name = String::new();
    for event in events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))))
    {
        if let Event::Text(text) | Event::Code(text) = event {
            name.push_str(text);
        }
    }
    let kept = name.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Where a link of the files leads to here: `limits.md#x` to `/docs/limits#x`.
fn served(link: CowStr<'_>) -> CowStr<'_> {
    let Some((name, rest)) = link.split_once(".md") else {
        return link;
    };
    if PAGES.iter().any(|(known, _)| *known == name) {
        format!("/docs/{name}{rest}").into()
    } else {
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_pages_lead_to_pages_that_are_served() {
        for (name, text) in PAGES {
            let page = render(text);
            assert!(page.contains("<h1 id="), "{name} has a heading");
            for link in
                page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or(""))
            {
                let Some(path) = link.strip_prefix("/docs/") else {
                    let fine =
                        link.starts_with('#') || link.starts_with("http") || link.starts_with('/');
                    assert!(fine, "{name} links to {link}, which is not served");
                    continue;
                };
                let (target, anchor) = path.split_once('#').unwrap_or((path, ""));
                let (_, text) =
                    PAGES.iter().find(|(known, _)| *known == target).unwrap_or(&("", ""));
                assert!(!text.is_empty(), "{name} links to {link}, which is no page");
                let there = anchor.is_empty() || render(text).contains(&format!("id=\"{anchor}\""));
                assert!(there, "{name} links to {link}, which is no place there");
            }
        }
    }
}
