//! What a server of HTTP/1.1 said, read as RFC 9112 divides it, and what was asked as far as that is beyond doubt.
//!
//! Panics at what is no HTTP. Not for what an answer must hold.

/// Heads have fewer headers on both sides: the server refuses more.
const HEADERS_MAX: usize = 128;

/// A request that needs no guessing: its path begins with a slash, its body has a plain length, and it asks for nothing
/// special.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
}

/// The requests at the beginning of what was sent that are beyond doubt.
pub(crate) fn asked(mut sent: &[u8]) -> Vec<Asked> {
    let mut requests = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(head)) = request.parse(sent) else { return requests };
        let (Some(method), Some(path), Some(1)) = (request.method, request.path, request.version) else {
            return requests;
        };
        let mut length = None;
        for header in request.headers.iter() {
            match header.name.to_ascii_lowercase().as_str() {
                "transfer-encoding" | "connection" | "upgrade" | "expect" => return requests,
                "content-length" => {
                    let text = std::str::from_utf8(header.value).unwrap_or_default();
                    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                    let (true, None, Ok(value)) = (plain, length, text.parse::<usize>()) else {
                        return requests;
                    };
                    length = Some(value);
                }
                _ => {}
            }
        }
        if !path.starts_with('/') || path.starts_with("//") || path.contains('#') {
            return requests;
        }
        requests.push(Asked { method: method.to_owned(), path: path.to_owned() });
        match sent.get(head + length.unwrap_or_default()..) {
            Some(rest) => sent = rest,
            None => return requests,
        }
    }
}

/// An answer, or as much of it as came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end.
    pub(crate) whole: bool,
    /// Whether a body belongs to an answer like this.
    pub(crate) has_body: bool,
}

impl Answer {
    /// The value of a header, whose name is in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    /// The type of the body, without parameters.
    pub(crate) fn media_type(&self) -> &str {
        let full = self.header("content-type").unwrap_or_default();
        full.split(';').next().unwrap_or_default().trim()
    }
}

/// Everything that came on one connection.
#[derive(Debug)]
pub(crate) struct Said {
    /// One for each request, without those that only announce another.
    pub(crate) answers: Vec<Answer>,
    /// What came behind the answer by which the connection became something else.
    pub(crate) switched: Option<Vec<u8>>,
    /// Whether the last head is whole.
    pub(crate) whole: bool,
}

/// Reads everything that came on a connection. `asked` are its requests, as far as they are known; to those behind them
/// an answer may lack its body, where `heads` says that one may have asked for the head alone.
pub(crate) fn said(mut bytes: &[u8], asked: &[Asked], heads: bool) -> Said {
    let mut said = Said { answers: Vec::new(), switched: None, whole: true };
    while !bytes.is_empty() {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let end = match head.parse(bytes) {
            Ok(httparse::Status::Complete(end)) => end,
            Ok(httparse::Status::Partial) => {
                said.whole = false;
                return said;
            }
            Err(error) => panic!("{error} in {}", shown(bytes)),
        };
        assert!(matches!(head.version, Some(0 | 1)), "{}", shown(bytes));
        let status = head.code.unwrap_or_default();
        assert!((100..600).contains(&status), "status {status}");
        let headers = head.headers.iter().map(|header| {
            let value = std::str::from_utf8(header.value).unwrap_or_else(|_| panic!("{}", shown(bytes)));
            (header.name.to_ascii_lowercase(), value.to_owned())
        });
        let mut answer =
            Answer { status, headers: headers.collect(), body: Vec::new(), whole: true, has_body: false };
        bytes = &bytes[end..];
        if status == 101 {
            said.answers.push(answer);
            said.switched = Some(bytes.to_vec());
            return said;
        }
        if status < 200 {
            continue;
        }
        let of_head = match asked.get(said.answers.len()) {
            Some(asked) => asked.method == "HEAD",
            None => heads && (bytes.is_empty() || bytes.starts_with(b"HTTP/1.")),
        };
        answer.has_body = !of_head && !matches!(status, 204 | 304);
        if answer.has_body {
            bytes = body(&mut answer, bytes);
        }
        said.answers.push(answer);
    }
    said
}

/// Takes the body of an answer off what follows its head.
fn body<'a>(answer: &mut Answer, bytes: &'a [u8]) -> &'a [u8] {
    let length = answer.header("content-length").map(str::to_owned);
    match (answer.header("transfer-encoding"), length) {
        (Some(encoding), None) => {
            assert_eq!(encoding, "chunked");
            chunks(answer, bytes)
        }
        (None, Some(length)) => {
            let length: usize = length.parse().unwrap_or_else(|_| panic!("a length of {length:?}"));
            answer.whole = bytes.len() >= length;
            let (body, rest) = bytes.split_at(length.min(bytes.len()));
            answer.body = body.to_vec();
            rest
        }
        (Some(_), Some(_)) => panic!("an answer with two lengths"),
        (None, None) => {
            // It ends with the connection.
            answer.body = bytes.to_vec();
            &[]
        }
    }
}

fn chunks<'a>(answer: &mut Answer, mut bytes: &'a [u8]) -> &'a [u8] {
    answer.whole = false;
    loop {
        let (begin, length) = match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return &[],
            Err(error) => panic!("{error:?}: {}", shown(bytes)),
        };
        bytes = &bytes[begin..];
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (part, rest) = bytes.split_at(length.min(bytes.len()));
        answer.body.extend_from_slice(part);
        if rest.len() < 2 {
            return &[];
        }
        assert!(rest.starts_with(b"\r\n"), "a chunk goes on: {}", shown(rest));
        bytes = &rest[2..];
        if length == 0 {
            answer.whole = true;
            return bytes;
        }
    }
}

/// The messages of a server within a WebSocket (RFC 6455, section 5.2): none is masked, all are of a known kind.
pub(crate) fn check_websocket(mut bytes: &[u8]) {
    while let [first, second, rest @ ..] = bytes {
        assert!(
            first & 0x70 == 0 && matches!(first & 0x0F, 0..=2 | 8..=10),
            "a frame begins with {first:#x}"
        );
        assert!(second & 0x80 == 0, "a frame of the server is masked");
        let (extended, length) = match second & 0x7F {
            126 => (2, rest.first_chunk::<2>().map(|length| u64::from(u16::from_be_bytes(*length)))),
            127 => (8, rest.first_chunk::<8>().map(|length| u64::from_be_bytes(*length))),
            length => (0, Some(u64::from(length))),
        };
        let Some(length) = length else { return };
        let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(extended);
        let Some(behind) = rest.get(end..) else { return };
        assert!(first & 0x0F != 8 || behind.is_empty(), "something follows the end: {}", shown(behind));
        bytes = behind;
    }
}

/// Bytes for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned()
}
