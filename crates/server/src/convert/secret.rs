//! What is a secret, and where it stands inside a text.
//!
//! Secrets are: the password of basic authentication, a bearer token, headers and environment
//! variables whose names suggest one, user and password inside a URL, and query parameters of a
//! request's URL whose names suggest one. What stands in a command line, a payload or a body
//! cannot be told from other text and is not masked.

use std::collections::HashMap;

use bellwether_api::MASK;

/// A text in pieces, some of which are secret.
pub(super) struct Pieces<'a>(Vec<Piece<'a>>);

struct Piece<'a> {
    text: &'a str,
    /// What the secret is called, and how many of that name came before it.
    slot: Option<(&'a str, usize)>,
}

impl<'a> Pieces<'a> {
    /// The value of a header or environment variable.
    pub(super) fn of_value(name: &str, value: &'a str) -> Pieces<'a> {
        if suggests_secret(name) {
            return Pieces(vec![Piece { text: value, slot: Some(("", 0)) }]);
        }
        let mut pieces = Pieces(Vec::new());
        pieces.userinfos(value);
        pieces
    }

    /// The URL of a request.
    pub(super) fn of_url(url: &'a str) -> Pieces<'a> {
        let mut pieces = Pieces(Vec::new());
        let (before, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
        pieces.userinfos(before);
        let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
        for pair in query.split_inclusive(['?', '&', ';']) {
            let (pair, separator) = match pair.strip_suffix(['?', '&', ';']) {
                Some(bare) => pair.split_at(bare.len()),
                None => (pair, ""),
            };
            match pair.split_once('=') {
                Some((name, value)) if suggests_secret(name) => {
                    pieces.open(&pair[..=name.len()]);
                    pieces.secret(name, value);
                }
                _ => pieces.open(pair),
            }
            pieces.open(separator);
        }
        pieces.open(fragment);
        pieces
    }

    /// Splits off the user information of every URL in a text.
    fn userinfos(&mut self, text: &'a str) {
        let mut rest = text;
        while let Some(at) = rest.find("://") {
            let (before, after) = rest.split_at(at + 3);
            self.open(before);
            let ends = |c: char| matches!(c, '/' | '?' | '#' | '\\') || c.is_whitespace();
            let authority = &after[..after.find(ends).unwrap_or(after.len())];
            rest = after;
            if let Some((info, _)) = authority.rsplit_once('@') {
                self.secret("@", info);
                rest = &after[info.len()..];
            }
        }
        self.open(rest);
    }

    fn open(&mut self, text: &'a str) {
        self.0.push(Piece { text, slot: None });
    }

    fn secret(&mut self, name: &'a str, text: &'a str) {
        let before =
            self.0.iter().filter(|piece| piece.slot.is_some_and(|slot| slot.0 == name)).count();
        self.0.push(Piece { text, slot: Some((name, before)) });
    }

    /// Whether a secret is the mask itself, which nobody can use.
    pub(super) fn has_mask(&self) -> bool {
        self.0.iter().any(|piece| piece.slot.is_some() && piece.text == MASK)
    }

    /// The text with all secrets masked. An empty one is no secret.
    pub(super) fn masked(&self) -> String {
        let shown = |piece: &Piece<'a>| match piece.slot {
            Some(_) if !piece.text.is_empty() => MASK,
            _ => piece.text,
        };
        self.0.iter().map(shown).collect()
    }

    /// The text with every mask replaced by the secret of the same name in `old`; `None` if there
    /// is none.
    pub(super) fn unmasked(&self, old: &Pieces<'_>) -> Option<String> {
        let stored: HashMap<(&str, usize), &str> =
            old.0.iter().filter_map(|piece| Some((piece.slot?, piece.text))).collect();
        self.0
            .iter()
            .map(|piece| match piece.slot {
                Some(slot) if piece.text == MASK => stored.get(&slot).copied(),
                _ => Some(piece.text),
            })
            .collect()
    }
}

/// Whether a header, variable or parameter of this name usually carries a secret.
pub(super) fn suggests_secret(name: &str) -> bool {
    const PARTS: [&str; 13] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "authorization",
        "cookie",
        "apikey",
        "accesskey",
        "privatekey",
        "pgpass",
        "signature",
    ];
    const WORDS: [&str; 9] = ["pass", "pwd", "pw", "auth", "jwt", "bearer", "pin", "sig", "sas"];
    let name = name.to_ascii_lowercase();
    if matches!(name.as_str(), "pwd" | "oldpwd" | "idempotency-key") {
        return false;
    }
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    PARTS.iter().any(|part| name.contains(part))
        || words.clone().any(|word| WORDS.contains(&word))
        || words.next_back().is_some_and(|last| matches!(last, "key" | "keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r55_names_that_suggest_secrets() {
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "X-Api-Key",
            "X-Auth",
            "X-Vault-Token",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID_SECRET",
            "PGPASSWORD",
            "MYSQL_PWD",
            "DB_PASS",
            "client-secret",
            "apikey",
            "SSH_PRIVATE_KEY",
        ] {
            assert!(suggests_secret(name), "{name}");
        }
        for name in ["LANG", "PATH", "PWD", "Accept", "Content-Type", "Idempotency-Key", "COMPASS"]
        {
            assert!(!suggests_secret(name), "{name}");
        }
    }

    #[test]
    fn r55_urls_lose_user_and_secret_parameters() {
        for (url, masked) in [
            ("https://ana:pa@ss@example.com/a?b=c", "https://********@example.com/a?b=c"),
            ("https://example.com/@me?mail=a@b.c", "https://example.com/@me?mail=a@b.c"),
            (
                "https://e.com/?token=abc&x=1&api_key=k#t",
                "https://e.com/?token=********&x=1&api_key=********#t",
            ),
            ("https://e.com/?token=", "https://e.com/?token="),
            ("https://e.com", "https://e.com"),
        ] {
            assert_eq!(Pieces::of_url(url).masked(), masked);
        }
        let dsn = "postgres://u:p@h/db,redis://:q@h2";
        let masked = Pieces::of_value("DATABASE_URL", dsn).masked();
        assert_eq!(masked, "postgres://********@h/db,redis://********@h2");
        let back = Pieces::of_value("DATABASE_URL", &masked)
            .unmasked(&Pieces::of_value("DATABASE_URL", dsn));
        assert_eq!(back.as_deref(), Some(dsn));
    }

    #[test]
    fn pieces_put_together_are_the_text() {
        for url in ["a?b&;c=d;#?&", "://@", "http://@/?=&token=", "?#", "", "x://y://z@"] {
            let whole: String = Pieces::of_url(url).0.iter().map(|piece| piece.text).collect();
            assert_eq!(whole, url);
        }
    }
}
