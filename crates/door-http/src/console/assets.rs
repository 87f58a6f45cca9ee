//! The console's files, which are parts of the program. Nothing is loaded from elsewhere, and the page may do no more
//! than what it needs for that.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::answer;

/// Scripts, styles and requests of its own only; no text becomes markup or a script; no other page shows it inside.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// One file.
#[derive(Clone, Copy, Debug)]
struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($kind:ident $name:literal)*) => {
        const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            kind: $kind,
            text: include_str!(concat!("../../console/", $name)),
        }),*];
    };
}

assets! {
    HTML "index.html"
    CSS "console.css"
    CSS "parts.css"
    SVG "icon.svg"
    SCRIPT "action.js"
    SCRIPT "api.js"
    SCRIPT "app.js"
    SCRIPT "chart.js"
    SCRIPT "dom.js"
    SCRIPT "format.js"
    SCRIPT "keys.js"
    SCRIPT "live.js"
    SCRIPT "table.js"
    SCRIPT "views/asked.js"
    SCRIPT "views/charts.js"
    SCRIPT "views/configuration.js"
    SCRIPT "views/consumers.js"
    SCRIPT "views/digests.js"
    SCRIPT "views/doctor.js"
    SCRIPT "views/events.js"
    SCRIPT "views/jobs.js"
    SCRIPT "views/overview.js"
    SCRIPT "views/sessions.js"
    SCRIPT "views/shards.js"
    SCRIPT "views/slow.js"
    SCRIPT "views/transactions.js"
}

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    served("index.html", &headers).await
}

/// `GET /console/NAME`
pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    served(&name, &headers).await
}

async fn served(name: &str, asked: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return answer::not_found().await.into_response();
    };
    let tag = tag_of(asset.text);
    let known = asked.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| knows(known.as_bytes(), &tag));
    let headers = [
        // A browser asks each time whether it has changed: another release has the same names.
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, &tag),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, [(header::CONTENT_TYPE, asset.kind)], asset.text).into_response(),
    }
}

/// The same for the same text in every process of this release.
fn tag_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{}-{:016x}\"", env!("CARGO_PKG_VERSION"), hasher.finish())
}

/// Whether a browser that says so has what this tag names.
fn knows(known: &[u8], tag: &str) -> bool {
    let mut all = known.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    all.any(|one| one == b"*" || one.strip_prefix(b"W/").unwrap_or(one) == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_LINES_MAX: usize = 600;

    fn scripts() -> impl Iterator<Item = &'static Asset> {
        ASSETS.iter().filter(|asset| asset.kind == SCRIPT)
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_says_its_job() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/console");
        let mut found = 0;
        for folder in ["", "views/"] {
            for entry in std::fs::read_dir(format!("{root}/{folder}")).expect("a folder") {
                let entry = entry.expect("an entry");
                if entry.file_type().expect("a type").is_dir() {
                    continue;
                }
                let name = format!("{folder}{}", entry.file_name().to_string_lossy());
                assert!(ASSETS.iter().any(|asset| asset.name == name), "{name}");
                found += 1;
            }
        }
        assert_eq!(found, ASSETS.len());
        for asset in ASSETS {
            assert!(
                asset.text.lines().count() <= FILE_LINES_MAX,
                "{}",
                asset.name
            );
        }
        for script in scripts() {
            assert!(
                script.text.starts_with("// "),
                "{} says no job",
                script.name
            );
        }
    }

    /// Statements come from anybody: their texts are put into the page as texts, never as markup.
    #[test]
    fn no_script_makes_markup_of_texts_and_nothing_comes_from_elsewhere() {
        for asset in ASSETS {
            for banned in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "srcdoc",
                "localStorage.setItem('token",
                "document.cookie",
                "style=\"",
                " onclick=",
            ] {
                assert!(!asset.text.contains(banned), "{}: {banned}", asset.name);
            }
            let without_namespace = asset.text.replace("http://www.w3.org/2000/svg", "");
            for elsewhere in ["http://", "https://", "url(//", "@import"] {
                assert!(
                    !without_namespace.contains(elsewhere),
                    "{}: {elsewhere}",
                    asset.name
                );
            }
        }
    }

    #[test]
    fn imports_lead_to_files() {
        for script in scripts() {
            for line in script
                .text
                .lines()
                .filter(|line| line.starts_with("import "))
            {
                let from = line.rsplit('\'').nth(1).expect("a quoted path");
                let folder = script
                    .name
                    .rsplit_once('/')
                    .map_or("", |(folder, _)| folder);
                let target = match (folder, from.strip_prefix("../")) {
                    (_, Some(up)) => up.to_owned(),
                    ("", None) => from.trim_start_matches("./").to_owned(),
                    (folder, None) => format!("{folder}/{}", from.trim_start_matches("./")),
                };
                let is_there = ASSETS.iter().any(|asset| asset.name == target);
                assert!(is_there, "{} imports {from}", script.name);
            }
        }
    }

    #[test]
    fn who_has_a_file_is_not_sent_it_again() {
        let tag = tag_of("a");
        assert_eq!(tag, tag_of("a"));
        assert_ne!(tag, tag_of("b"));
        assert!(knows(tag.as_bytes(), &tag) && knows(format!("\"x\", W/{tag}").as_bytes(), &tag));
        assert!(!knows(b"\"x\"", &tag) && !knows(b"", &tag));
    }
}
