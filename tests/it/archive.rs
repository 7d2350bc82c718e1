//! An archive as a crawl writes it. The files stay under the build's own folder, where
//! `.ci/warcio-check` holds them against the world's tools.

use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use peercrawl::archive::{
    Digest, DiskLimit, Exchange, Original, Reader, RecordBuilder, Response, Settings, Truncated,
    Writer,
};

use crate::hostile::{HostileWeb, hang_up, page, respond};

const START_MS: u64 = 1_794_803_786_123;

/// Real pages in the dresses that servers send them in, and what comes with it.
fn answers() -> Vec<(String, Vec<u8>, Option<Truncated>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data/pages");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    let mut answers = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let page = fs::read(path).unwrap();
        let url = format!(
            "https://www.h{}.example.org/Page/{number}?b=2&a=1",
            number % 7
        );
        let head = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-type: text/html; charset=utf-8\r\n";
        let answer = match number % 4 {
            0 => [
                format!("{head}Content-Length: {}\r\n\r\n", page.len()).as_bytes(),
                &page,
            ]
            .concat(),
            1 => {
                let mut answer = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
                for chunk in page.chunks(5_000) {
                    answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    answer.extend(chunk);
                    answer.extend(b"\r\n");
                }
                answer.extend(b"0\r\n\r\n");
                answer
            }
            2 => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                std::io::Write::write_all(&mut gzip, &page).unwrap();
                let head = format!("{head}Content-Encoding: gzip\r\n\r\n").into_bytes();
                [head, gzip.finish().unwrap()].concat()
            }
            _ => [
                b"HTTP/1.0 404 Not Found\r\nX-Odd:  spaces  \r\n\r\n",
                &page[..],
            ]
            .concat(),
        };
        answers.push((url, answer, None));
    }
    let start = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe first half";
    answers.push((
        "http://www2.cut.example/folder/".into(),
        start.to_vec(),
        Some(Truncated::Disconnect),
    ));
    let nothing = b"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n";
    answers.push((
        "http://127.0.0.1:8080/%C3%A9?x".into(),
        nothing.to_vec(),
        None,
    ));
    answers
}

#[test]
fn an_archive_gives_back_what_servers_sent() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("archive");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let settings = Settings {
        folder: folder.clone(),
        owner: "state".into(),
        file_bytes: 300_000,
        unique: b"this peer".to_vec(),
        info: vec![
            ("software".into(), "peercrawl".into()),
            ("format".into(), "WARC File Format 1.1".into()),
        ],
        limit: DiskLimit::NONE,
    };
    let (mut writer, incidents) = Writer::open(settings, None, None).unwrap();
    assert_eq!(incidents, []);
    let mut builder = RecordBuilder::new();
    let answers = answers();
    for (number, (url, answer, truncated)) in answers.iter().enumerate() {
        let at_ms = START_MS + 10 * number as u64;
        let mut exchange = Exchange {
            url,
            at_ms,
            address: Some("127.0.0.1".parse().unwrap()),
            request: b"GET / HTTP/1.1\r\nhost: example.org\r\n\r\n",
            response: Response::new(answer),
            truncated: *truncated,
            unique: &number.to_le_bytes(),
        };
        let mut prepared = builder.exchange(&exchange, None);
        let links = ["http://a.example/", "http://b.example/"];
        let links = links.into_iter().collect();
        let unique = number.to_le_bytes();
        prepared.join(builder.links(url, at_ms, exchange.response_id(), &unique, &links));
        writer.append(&prepared, at_ms).unwrap();
        // The same again from a mirror.
        let mirror = format!("{url}mirror");
        let original = Original {
            url: url.clone(),
            at_ms,
            payload_digest: exchange.response.payload_digest(),
        };
        let unique = [1, number as u8];
        exchange.url = &mirror;
        exchange.unique = &unique;
        writer
            .append(&builder.exchange(&exchange, Some(&original)), at_ms)
            .unwrap();
    }
    writer.complete().unwrap();

    let reader = Reader::new(&folder);
    let verified = reader.verify().unwrap();
    assert_eq!(verified.problems, []);
    assert_eq!(verified.pages, 2 * answers.len() as u64);
    assert!(verified.files > 2, "{verified:?}");
    for (url, answer, _) in &answers {
        assert_eq!(reader.get(url).unwrap().unwrap().record.block, *answer);
        let mirror = reader.get(&format!("{url}mirror")).unwrap().unwrap();
        assert!(mirror.entry.is_revisit());
        assert_eq!(mirror.original.unwrap().block, *answer);
    }
}

/// Crawls a site, with these settings besides, and gives the report.
fn crawl(seed: &str, data: &Path, settings: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_peercrawl"))
        .args(["crawl", seed, "--allow-private", "--json", "--data"])
        .arg(data)
        .args(settings.iter().flat_map(|setting| ["--set", *setting]))
        .env("HOME", data)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_links_of_a_page_are_kept_with_it_only_if_that_is_wanted() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| page(stream, format!("{path} <a href=/next>")));
    for (settings, expected) in [(&[][..], 2), (&["archive.links=false"][..], 0)] {
        let data = tempfile::TempDir::new().unwrap();
        let report = crawl(&site.url("/"), data.path(), settings);
        assert_eq!(report["pages"], 2, "{report}");
        let records = records(data.path());
        let count = |kind: &str| records.iter().filter(|one| one.is(kind)).count();
        assert_eq!(count("metadata"), expected);
        assert_eq!(count("request"), count("response"));
    }
}

/// A record as text.
struct Text {
    head: String,
    block: String,
}

impl Text {
    fn is(&self, kind: &str) -> bool {
        self.head.contains(&format!("WARC-Type: {kind}\r\n"))
    }

    fn field(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }
}

/// All records of the complete files of an archive.
fn records(data: &Path) -> Vec<Text> {
    let mut text = Vec::new();
    for file in fs::read_dir(data.join("archive")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "gz") {
            let records = fs::File::open(path).unwrap();
            let mut records = flate2::read::MultiGzDecoder::new(records);
            records.read_to_end(&mut text).unwrap();
        }
    }
    let text = String::from_utf8(text).unwrap();
    let records = text.split("WARC/1.1\r\n").skip(1).map(|record| {
        let (head, block) = record.split_once("\r\n\r\n").unwrap();
        Text {
            head: format!("{head}\r\n"),
            block: block.strip_suffix("\r\n\r\n").unwrap().to_owned(),
        }
    });
    records.collect()
}

#[test]
fn records_say_from_where_they_are_and_who_asked_for_what() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| page(stream, format!("{path} <a href=/next>")));
    let data = tempfile::TempDir::new().unwrap();
    crawl(&site.url("/"), data.path(), &[]);
    let records = records(data.path());
    let of = |kind: &str, url: &str| {
        let is_it = |one: &&Text| one.is(kind) && one.field("WARC-Target-URI") == url;
        let [found] = *records.iter().filter(is_it).collect::<Vec<_>>() else {
            panic!("one {kind} of {url}");
        };
        found
    };
    for path in ["/", "/next"] {
        let url = site.url(path);
        let [response, request, metadata] =
            ["response", "request", "metadata"].map(|kind| of(kind, &url));
        let address = site.address.ip().to_string();
        assert_eq!(response.field("WARC-IP-Address"), address);
        assert_eq!(request.field("WARC-IP-Address"), address);
        for beside in [request, metadata] {
            let id = beside.field("WARC-Concurrent-To");
            assert_eq!(id, response.field("WARC-Record-ID"));
            assert_eq!(beside.field("WARC-Date"), response.field("WARC-Date"));
        }
        assert!(response.block.starts_with("HTTP/1.1 200 OK\r\n"));
        let asked: Vec<_> = request.block.lines().collect();
        assert_eq!(asked[0], format!("GET {path} HTTP/1.1"));
        let host = format!("host: {}", site.address);
        let hosts = asked.iter().filter(|line| line.eq_ignore_ascii_case(&host));
        assert_eq!(hosts.count(), 1, "{asked:?}");
        assert_eq!(
            metadata.block,
            format!("outlink: {}\r\n", site.url("/next"))
        );
    }
    let info = records.iter().find(|one| one.is("warcinfo")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        &*format!("software: PeerCrawl/{version}"),
        "format: WARC File Format 1.1",
        "robots: obey",
    ] {
        assert!(info.block.lines().any(|one| one == line), "{}", info.block);
    }
}

/// Its beginning is archived once, with the last try, and says that there was more.
#[test]
fn an_answer_that_breaks_off_is_kept_and_says_so() {
    let mut web = HostileWeb::default();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfour";
    let site = web.pages(|_, mut stream| {
        stream.write_all(answer)?;
        hang_up()
    });
    let data = tempfile::TempDir::new().unwrap();
    let settings = ["politeness.private_backoff_ms=10"];
    let report = crawl(&site.url("/"), data.path(), &settings);
    let counts = (&report["pages"], &report["errors"]["other"]);
    assert_eq!(counts, (&0.into(), &1.into()), "{report}");
    assert!(site.asked_for("/") > 1);
    let reader = Reader::new(data.path().join("archive"));
    let verified = reader.verify().unwrap();
    assert_eq!((verified.pages, verified.problems), (1, Vec::new()));
    let found = reader.get(&site.url("/")).unwrap().unwrap();
    assert_eq!(found.entry.status, "200");
    assert_eq!(found.record.field("WARC-Truncated"), Some("disconnect"));
    assert_eq!(found.record.block, answer);
}

/// The interim answer was once taken for the answer, and the answer for its payload.
#[test]
fn interim_answers_are_no_part_of_the_answer() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, mut stream| {
        let interim: &[u8] = match path {
            "/" => b"HTTP/1.1 103 Early Hints\r\nLink: </next>; rel=preload\r\n\r\n",
            _ => b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
        };
        stream.write_all(interim)?;
        page(stream, format!("{path} <a href=/next>"))
    });
    let data = tempfile::TempDir::new().unwrap();
    let report = crawl(&site.url("/"), data.path(), &[]);
    assert_eq!(report["pages"], 2, "{report}");
    let reader = Reader::new(data.path().join("archive"));
    assert_eq!(reader.verify().unwrap().problems, []);
    for path in ["/", "/next"] {
        let found = reader.get(&site.url(path)).unwrap().unwrap();
        let body = format!("{path} <a href=/next>");
        assert_eq!(
            (&*found.entry.status, &*found.entry.media_type),
            ("200", "text/html")
        );
        assert_eq!(found.entry.digest, Digest::of(body.as_bytes()).to_string());
        assert!(found.record.block.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert_eq!(found.record.payload(), body.as_bytes());
    }
}

/// A page that asks not to be kept is read, and its links are followed, but it is not
/// archived; nor does a mirror of it point to a record that is not there.
#[test]
fn what_asks_not_to_be_archived_is_not() {
    let mut web = HostileWeb::default();
    let html = "Content-Type: text/html\r\n";
    let site = web.pages(move |path, stream| match path {
        "/" => page(stream, "<a href=/meta><a href=/header><a href=/plain>"),
        "/meta" => page(
            stream,
            "<meta name=robots content=noarchive><a href=/further>",
        ),
        "/header" => {
            let headers = format!("X-Robots-Tag: noindex\r\n{html}");
            respond(stream, "200 OK", &headers, b"the same <a href=/mirror>")
        }
        "/mirror" => page(stream, "the same <a href=/mirror>"),
        _ => page(stream, path),
    });
    let data = tempfile::TempDir::new().unwrap();
    let report = crawl(&site.url("/"), data.path(), &[]);
    let counts = (&report["pages"], &report["content"]["unarchived"]);
    assert_eq!(counts, (&6.into(), &2.into()), "{report}");
    let reader = Reader::new(data.path().join("archive"));
    assert_eq!(reader.verify().unwrap().problems, []);
    let is_kept = |path: &str| reader.get(&site.url(path)).unwrap().is_some();
    for path in ["/", "/plain", "/further"] {
        assert!(is_kept(path), "{path}");
    }
    assert!(!is_kept("/meta") && !is_kept("/header"));
    let mirror = reader.get(&site.url("/mirror")).unwrap().unwrap();
    assert!(!mirror.entry.is_revisit());
}
