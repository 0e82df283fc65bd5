//! A server in place of GitHub's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(super) fn text(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["body"].as_str().unwrap().to_owned()
    }
}

pub(super) type Answer = (u16, Vec<u8>);

/// Answers requests until it is dropped, and keeps them. Whose token it is, it says to whoever asks.
pub(super) struct Server {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(answer: impl Fn(&Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let mut stream = stream.unwrap();
                let request = receive(&stream);
                let (status, body) = if request.path == "/graphql" {
                    self::answer(200, &json!({"data": {"viewer": {"login": "github-actions"}}}))
                } else {
                    let answer = answer(&request);
                    kept.lock().unwrap().push(request);
                    answer
                };
                let head =
                    format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&body).unwrap();
            }
        });
        Self { url, requests, stop, thread: Some(thread) }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Request::line).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok(), "the server failed");
    }
}

fn receive(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (mut authorization, mut length) = (None, 0);
    loop {
        let header = line();
        let Some((name, value)) = header.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Request { method, path, authorization, body }
}

/// An address without a server. A port that was free a moment ago may be another test's by now.
pub(super) fn nowhere() -> String {
    "http://127.0.0.1:1".to_owned()
}

pub(super) const COMMENTS: &str = "/repos/someone/model/issues/7/comments";

pub(super) fn answer(status: u16, body: &Value) -> Answer {
    (status, body.to_string().into_bytes())
}

pub(super) fn comment(id: u64, body: &str) -> Value {
    json!({"id": id, "body": body, "user": {"login": "github-actions[bot]", "type": "Bot"}})
}

/// A pull request with these comments, which can be added to and changed.
pub(super) fn pull_request(comments: Vec<Value>) -> Server {
    let comments = Mutex::new(comments);
    Server::start(move |request| {
        let mut comments = comments.lock().unwrap();
        match request.method.as_str() {
            "GET" => {
                let (path, page) = request.path.split_once("?per_page=100&page=").unwrap();
                assert_eq!(path, COMMENTS);
                let page: usize = page.parse().unwrap();
                let page: Vec<_> = comments.iter().skip((page - 1) * 100).take(100).cloned().collect();
                answer(200, &Value::from(page))
            }
            "POST" => {
                let id = comments.len() as u64 + 10_000;
                comments.push(comment(id, &given_back(request)));
                answer(201, &json!({ "id": id }))
            }
            "PATCH" => {
                let id: u64 = request.path.rsplit('/').next().unwrap().parse().unwrap();
                let changed = comments.iter_mut().find(|comment| comment["id"] == id).unwrap();
                changed["body"] = given_back(request).into();
                answer(200, &json!({}))
            }
            other => panic!("{other}"),
        }
    })
}

/// The text of a request that wrote a comment, with the line breaks of HTTP, as GitHub gives it back.
fn given_back(request: &Request) -> String {
    request.text().replace('\n', "\r\n")
}
