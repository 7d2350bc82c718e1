use std::fs;

use toml_edit::Value;

use super::*;

#[test]
fn the_file_equals_the_defaults_in_code() {
    let mut from_file = blank();
    from_file.apply("config.toml", BUILT_IN).unwrap();
    assert_eq!(from_file, Settings::default());
}

/// Settings that differ from the defaults in every key, so that a key which the file
/// leaves out shows.
fn blank() -> Settings {
    let mut settings = Settings::default();
    let document = Document::parse(BUILT_IN).unwrap();
    for key in KEYS {
        let (section, name) = key.split_once('.').unwrap();
        let item = document.as_table()[section].as_table_like().unwrap();
        let value = match item.get(name).and_then(Item::as_value) {
            Some(Value::Boolean(flag)) => Value::from(!flag.value()),
            Some(Value::Integer(number)) if *number.value() > 1 => Value::from(number.value() - 1),
            Some(Value::Integer(number)) => Value::from(number.value() + 1),
            Some(Value::Array(_)) => match *key {
                "network.ports" => "[1]",
                "crawl.seeds" => "['http://x/']",
                "overlay.listen" | "overlay.bootstrap" => "['/ip4/127.0.0.1/tcp/1']",
                _ => "['x']",
            }
            .parse()
            .unwrap(),
            Some(Value::String(text)) => match text.value().as_str() {
                "any" => Value::from("host"),
                "rendezvous" => Value::from("static"),
                "flat" => Value::from("supernode"),
                "system" => Value::from("dark"),
                "ask" => Value::from("quit"),
                "0-24" => Value::from("off"),
                "stop" => Value::from("remove-oldest"),
                UNPUBLISHED_BOT_PAGE => Value::from(""),
                _ => Value::from("x"),
            },
            other => panic!("config.toml does not name `{key}`, or oddly: {other:?}"),
        };
        settings.set(key, &value).unwrap();
    }
    settings
}

#[test]
fn the_file_names_every_key_with_a_comment() {
    let mut section = "";
    let mut named = Vec::new();
    let lines: Vec<_> = BUILT_IN.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let comment = || number > 0 && lines[number - 1].starts_with("# ");
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            assert!(comment(), "[{section}] has no comment");
        } else if let Some((name, _)) = line.split_once(" = ") {
            named.push(format!("{section}.{name}"));
            assert!(comment(), "{section}.{name} has no comment");
        }
    }
    assert_eq!(named, KEYS);
}

fn refusal(text: &str) -> String {
    let mut settings = Settings::default();
    settings.apply("mine.toml", text).unwrap_err().to_string()
}

#[test]
fn a_refusal_names_file_line_key_and_what_is_allowed() {
    assert_eq!(
        refusal("[politeness]\n\ndelay_ms = 10\n"),
        "mine.toml:3: `politeness.delay_ms` cannot be 10; allowed: a whole number from 500 to 3600000"
    );
    assert_eq!(
        refusal("[network]\nallow_private = \"yes\"\n"),
        "mine.toml:2: `network.allow_private` cannot be \"yes\"; allowed: true or false"
    );
    assert_eq!(
        refusal("[crawl]\nscope = 'world'\n"),
        "mine.toml:2: `crawl.scope` cannot be \"world\"; allowed: \"host\" or \"domain\" or \"any\""
    );
    assert_eq!(
        refusal("# a\n[content]\nanswer = 10\n"),
        "mine.toml:3: unknown key `content.answer`; the keys of [content] are claim_secs, answer_ms, batch_claims"
    );
    assert!(
        refusal("[nonsense]\n")
            .starts_with("mine.toml:1: unknown key `nonsense`; the sections are crawl,")
    );
    assert!(refusal("seeds = []\n").starts_with("mine.toml:1: unknown key `seeds`"));
    assert!(refusal("[crawl]\nseeds = [1]\n").contains("mine.toml:2: `crawl.seeds` cannot be [1]"));
    assert!(refusal("[crawl]\nseeds = [\n").contains("not TOML"));
    assert!(refusal("[network]\nports = [80, 70000]\n").contains("from 1 to 65535"));
    assert!(refusal("[crawl]\nmax_depth = -1\n").contains("from 0 to 10000"));
    assert!(refusal("[crawl.max_depth]\nx = 1\n").contains("unknown key"));
    // The beginning of a section's name is none.
    assert!(refusal("[cra]\n").starts_with("mine.toml:1: unknown key `cra`; the sections are"));
}

#[test]
fn a_text_is_taken_only_if_it_can_be_used() {
    for (key, value, allowed) in [
        ("politeness.agent", "\"\"", "a product token"),
        ("politeness.agent", "\"a bot\"", "a product token"),
        // It once ended a downloader.
        ("politeness.agent", "\"a\\r\\nb\"", "a product token"),
        ("politeness.agent", "\"bot/1\"", "a product token"),
        ("politeness.bot_page", "\"nowhere\"", "a web address"),
        (
            "politeness.bot_page",
            "\"http://a.example/\\r\\nx: y\"",
            "a web address",
        ),
        (
            "politeness.bot_page",
            "\"http://a.example/é\"",
            "a web address",
        ),
        ("overlay.listen", "[\"nonsense\"]", "multiaddresses"),
        ("overlay.listen", "[\"\"]", "multiaddresses"),
        ("overlay.bootstrap", "[\"x\"]", "multiaddresses"),
        (
            "overlay.bootstrap",
            "[\" /ip4/127.0.0.1/tcp/1\"]",
            "multiaddresses",
        ),
        ("crawl.seeds", "[\"nonsense\"]", "a list of web addresses"),
        (
            "crawl.seeds",
            "[\"http://a/\", \"ftp://a/\"]",
            "a list of web addresses",
        ),
        (
            "crawl.blocked_sites",
            "[\"http://x y\"]",
            "a list of host names",
        ),
    ] {
        let (section, name) = key.split_once('.').unwrap();
        let told = refusal(&format!("[{section}]\n{name} = {value}\n"));
        let begin = format!("mine.toml:2: `{key}` cannot be ");
        let (_, rest) = told.split_once("; allowed: ").unwrap();
        assert!(told.starts_with(&begin) && rest.contains(allowed), "{told}");
    }
    let mut settings = Settings::default();
    for fine in [
        "politeness.agent=Some_Other-Bot",
        "politeness.bot_page=https://a.example/bot?x=1",
        "overlay.bootstrap=['/dns4/a.example/tcp/1', '/dnsaddr/a.example']",
        "crawl.blocked_sites=['example.org', '*.example.org', '=a.example', '::1']",
    ] {
        settings.apply_flag(fine).unwrap();
    }
}

/// What layers of this file and these flags are refused for.
fn refused_together(text: &str, flags: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mine.toml");
    fs::write(&config, text).unwrap();
    let layers = Layers {
        config: Some(config),
        flags: flags.iter().map(|flag| Flag::set(flag)).collect(),
        ..Layers::default()
    };
    let told = layers.read().unwrap_err().to_string();
    told.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn keys_that_do_not_go_together_are_refused_where_the_last_one_stands() {
    let percents = "queues.leave_percent (60) below queues.shallow_percent (50) below \
                    queues.refuse_percent (95)";
    assert_eq!(
        refused_together("# Mine.\n[queues]\nshallow_percent = 50\n", &[]),
        format!("mine.toml:3: `queues.shallow_percent` does not fit; allowed: {percents}")
    );
    assert_eq!(
        refused_together(
            "[queues]\nshallow_percent = 50\nleave_percent = 40\n",
            &["queues.leave_percent=60"]
        ),
        format!(
            "--set queues.leave_percent=60: `queues.leave_percent` does not fit; \
             allowed: {percents}"
        )
    );
    assert!(
        refused_together("[queues]\nrefuse_percent = 75\n", &[])
            .starts_with("mine.toml:2: `queues.refuse_percent`")
    );
    assert_eq!(
        refused_together("[politeness]\ndelay_ms = 40000\n", &[]),
        "mine.toml:2: `politeness.delay_ms` does not fit; allowed: politeness.delay_ms (40000) \
         up to politeness.max_delay_ms (30000)"
    );
    assert!(
        refused_together(
            "[distribution]\nkind = 'static'\npeers = 2\nindex = 2\n",
            &[]
        )
        .starts_with("mine.toml:4: `distribution.index` does not fit")
    );
    // The order of the lines is not the order of the layers.
    assert!(
        refused_together("[distribution]\nindex = 2\n", &["distribution.kind=static"])
            .starts_with("--set distribution.kind=static: `distribution.kind`")
    );
    let fits = Layers {
        flags: ["politeness.delay_ms=40000", "politeness.max_delay_ms=40000"]
            .map(Flag::set)
            .to_vec(),
        ..Layers::default()
    };
    assert_eq!(fits.read().unwrap().politeness.delay_ms, 40_000);
}

#[test]
fn later_layers_win_and_may_be_partial() {
    let folder = std::env::temp_dir().join(format!("peercrawl-layers-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let user = folder.join("user.toml");
    let config = folder.join("config.toml");
    fs::write(
        &user,
        "[crawl]\nmax_depth = 1\nmax_pages = 1\nscope = 'host'\n",
    )
    .unwrap();
    fs::write(&config, "[crawl]\nmax_depth = 2\nmax_pages = 2\n").unwrap();
    let layers = Layers {
        user: Some(user),
        config: Some(config),
        flags: ["crawl.max_depth=3", "politeness.agent=other"]
            .map(Flag::set)
            .to_vec(),
        granted: vec!["crawl.scope=domain", "threads.downloaders=7"],
    };
    let settings = layers.read().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(settings.crawl.max_depth, 3);
    assert_eq!(settings.crawl.max_pages, 2);
    assert_eq!(settings.crawl.scope, Scope::Host);
    assert_eq!(settings.threads.downloaders, 7);
    assert_eq!(settings.politeness.agent, "other");
    assert_eq!(settings.content, Content::default());
}

#[test]
fn a_flag_is_toml_or_else_a_string() {
    let mut settings = Settings::default();
    settings.apply_flag("crawl.scope=host").unwrap();
    settings.apply_flag("crawl.seeds=['http://a/']").unwrap();
    settings.apply_flag("network.allow_private=true").unwrap();
    assert_eq!(settings.crawl.scope, Scope::Host);
    assert_eq!(settings.crawl.seeds, ["http://a/"]);
    assert!(settings.network.allow_private);
    let error = settings.apply_flag("crawl.max_depth=deep").unwrap_err();
    assert_eq!(
        error.to_string(),
        "--set crawl.max_depth=deep: `crawl.max_depth` cannot be \"deep\"; allowed: a whole number from 0 to 10000"
    );
    assert!(settings.apply_flag("crawl.max_depth").is_err());
}

#[test]
fn a_missing_config_file_is_an_error_and_a_missing_user_file_is_not() {
    let nowhere = std::env::temp_dir().join("peercrawl-no-such-file.toml");
    let layers = Layers {
        user: Some(nowhere.clone()),
        ..Layers::default()
    };
    assert_eq!(layers.read().unwrap(), Settings::default());
    let layers = Layers {
        config: Some(nowhere),
        ..Layers::default()
    };
    assert!(layers.read().unwrap_err().what.contains("no such file"));
}
