//! The two forms of a change stream: lines of JSON, and server-sent events, whose ids are the lines' tokens.

use axum::http::{HeaderMap, header};

/// In front of each line's token.
const TOKEN: &[u8] = b"{\"token\":\"";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    ServerSent,
}

/// The form that the client accepts.
pub(super) fn form(headers: &HeaderMap) -> Form {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    match accepted.any(|value| value.contains("text/event-stream")) {
        true => Form::ServerSent,
        false => Form::Lines,
    }
}

/// The token at which a client of server-sent events goes on.
pub(super) fn last_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("last-event-id")?.to_str().ok()?;
    (!id.is_empty()).then(|| id.to_owned())
}

impl Form {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Form::Lines => "application/x-ndjson",
            Form::ServerSent => "text/event-stream",
        }
    }

    /// Whole lines, in this form.
    pub(super) fn write(self, lines: Vec<u8>) -> Vec<u8> {
        if self == Form::Lines {
            return lines;
        }
        let mut events = Vec::with_capacity(lines.len() * 3 / 2);
        for line in lines
            .split(|&byte| byte == b'\n')
            .filter(|it| !it.is_empty())
        {
            let token = line.strip_prefix(TOKEN);
            let end = token.and_then(|token| token.iter().position(|&byte| byte == b'"'));
            if let (Some(token), Some(end)) = (token, end) {
                events.extend_from_slice(b"id: ");
                events.extend_from_slice(&token[..end]);
                events.push(b'\n');
            }
            events.extend_from_slice(b"data: ");
            events.extend_from_slice(line);
            events.extend_from_slice(b"\n\n");
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn lines_become_events_with_their_tokens_as_ids() {
        let lines =
            b"{\"token\":\"abc\",\"event\":\"begin\"}\n{\"token\":null,\"event\":\"error\"}\n";
        let events = Form::ServerSent.write(lines.to_vec());
        let expected = "id: abc\ndata: {\"token\":\"abc\",\"event\":\"begin\"}\n\n\
                        data: {\"token\":null,\"event\":\"error\"}\n\n";
        assert_eq!(String::from_utf8_lossy(&events), expected);
        assert_eq!(Form::Lines.write(lines.to_vec()), lines);
    }

    #[test]
    fn the_client_says_which_form_it_accepts() {
        let mut headers = HeaderMap::new();
        assert_eq!((form(&headers), last_id(&headers)), (Form::Lines, None));
        let accepted = HeaderValue::from_static("text/event-stream, */*;q=0.1");
        headers.insert(header::ACCEPT, accepted);
        headers.insert("last-event-id", HeaderValue::from_static("abc"));
        assert_eq!(form(&headers), Form::ServerSent);
        assert_eq!(last_id(&headers).as_deref(), Some("abc"));
    }
}
