//! Server-sent events, from bytes (HTML Living Standard, 9.2.6, Interpreting an event stream).
//!
//! Not for what events mean, and not for reconnecting.

use crate::ClientError;

/// The longest event. A sample of output is at most some KiB.
const EVENT_MAX: usize = 1 << 20;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its name; empty where it has none.
    pub(crate) name: String,
    pub(crate) data: String,
    /// Its id; it stays in force for those that follow.
    pub(crate) id: Option<String>,
}

/// Takes events out of a stream of bytes, however it is cut.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Bytes that are no whole line yet.
    pending: Vec<u8>,
    /// How much of that was looked through.
    looked: usize,
    event: Event,
    /// Whether the event has data.
    has_data: bool,
    size: usize,
}

impl Parser {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next event that is there whole.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, ClientError> {
        // Lines end with LF here, or CR LF: the service writes no bare CR, which would leave the end of a line open.
        while let Some(at) = self.pending[self.looked..].iter().position(|byte| *byte == b'\n') {
            let rest = self.pending.split_off(self.looked + at + 1);
            let mut line = std::mem::replace(&mut self.pending, rest);
            self.looked = 0;
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.is_empty() {
                self.size = 0;
                let event = std::mem::take(&mut self.event);
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(event));
                }
                continue;
            }
            self.line(&line)?;
        }
        self.looked = self.pending.len();
        if self.pending.len() > EVENT_MAX { Err(too_long()) } else { Ok(None) }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ClientError> {
        self.size += line.len();
        if self.size > EVENT_MAX {
            return Err(too_long());
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            // Comments, which keep the connection alive, and what is not known.
            _ => {}
        }
        Ok(())
    }
}

fn too_long() -> ClientError {
    ClientError::TooLong { limit: EVENT_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8], piece: usize) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in bytes.chunks(piece) {
            parser.push(piece);
            while let Some(event) = parser.next().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        let text = ": hello\n\nevent: started\nid: 7\ndata: {\"a\":1}\n\ndata: one\r\ndata:two\r\n\r\nevent: end\n\ndata\n\ndata: cut";
        let event = |name: &str, id: Option<&str>, data: &str| Event {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            data: data.to_owned(),
        };
        let expect =
            [event("started", Some("7"), "{\"a\":1}"), event("", None, "one\ntwo"), event("", None, "")];
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(events(text.as_bytes(), piece), expect, "cut every {piece} bytes");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        parser.push(&vec![b'x'; EVENT_MAX + 1]);
        assert!(matches!(parser.next(), Err(ClientError::TooLong { .. })));
        let mut parser = Parser::default();
        let line = [b"data: ".as_slice(), &[b'x'; 1000], b"\n"].concat();
        let refused = (0..=EVENT_MAX / 1000).any(|_| {
            parser.push(&line);
            parser.next().is_err()
        });
        assert!(refused);
    }
}
