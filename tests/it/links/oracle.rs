//! What the links of a page are, by html5ever.
//!
//! Its tree builder steers the tokenizer (what is raw text, what is foreign) with
//! scripting off, and tells which namespace each element came into. Links are read off the start tags that pass through.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, ExpandedName, QualName, TokenizerResult, local_name, ns};
use url::Url;

/// All links of a page over `http` and `https`, in its order.
pub fn links(body: &[u8], page: &Url) -> Vec<String> {
    let options = TreeBuilderOpts {
        scripting_enabled: false,
        ..TreeBuilderOpts::default()
    };
    let reader = Reader {
        tree: TreeBuilder::new(Tree::default(), options),
        open_templates: Cell::default(),
        hrefs: RefCell::default(),
        base: RefCell::default(),
        refreshed: Cell::default(),
        nofollow: Cell::default(),
    };
    let tokenizer = Tokenizer::new(reader, TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(&*text(body)));
    // It stops after each script, for someone to run it.
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();

    let reader = tokenizer.sink;
    if reader.nofollow.get() {
        return Vec::new();
    }
    let base = reader.base.take().and_then(|href| page.join(&href).ok());
    let base = base.unwrap_or_else(|| page.clone());
    let links = reader.hrefs.take();
    links
        .iter()
        .filter_map(|href| base.join(href).ok())
        .filter(|url| url.scheme() == "http" || url.scheme() == "https")
        .map(String::from)
        .collect()
}

/// None of the pages here is in a legacy charset, so that no query needs one.
fn text(body: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body))
}

struct Reader {
    tree: TreeBuilder<Rc<Node>, Tree>,
    open_templates: Cell<usize>,
    hrefs: RefCell<Vec<String>>,
    base: RefCell<Option<String>>,
    refreshed: Cell<bool>,
    nofollow: Cell<bool>,
}

impl TokenSink for Reader {
    type Handle = Rc<Node>;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Rc<Node>> {
        let Token::TagToken(tag) = token else {
            return self.tree.process_token(token, line);
        };
        self.tree.sink.created.borrow_mut().clear();
        let result = self.tree.process_token(Token::TagToken(tag.clone()), line);
        let created = self.tree.sink.created.borrow();
        let open_templates = self.open_templates.get();
        if tag.kind == TagKind::StartTag {
            // A tag may be dropped from the tree and still be a tag of the page.
            let element = created.iter().find(|name| name.local == tag.name);
            let is_html = element.is_none_or(|name| name.ns == ns!(html));
            if open_templates == 0 && (is_html || tag.name == local_name!("a")) {
                self.read(&tag);
            }
            if element.is_some() && is_html && tag.name == local_name!("template") {
                self.open_templates.set(open_templates + 1);
            }
        } else if tag.name == local_name!("template") {
            self.open_templates.set(open_templates.saturating_sub(1));
        }
        result
    }

    fn end(&self) {
        self.tree.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.tree
            .adjusted_current_node_present_but_not_in_html_namespace()
    }
}

impl Reader {
    fn read(&self, tag: &Tag) {
        let attribute = |name: &str| {
            let mut attributes = tag.attrs.iter();
            let found = attributes.find(|attribute| &*attribute.name.local == name);
            found.map(|attribute| attribute.value.to_string())
        };
        let relations = attribute("rel").unwrap_or_default().to_ascii_lowercase();
        let relations: Vec<&str> = relations.split_ascii_whitespace().collect();
        let link = match &*tag.name {
            "a" | "area" => attribute("href"),
            "link"
                if ["next", "canonical", "alternate"]
                    .iter()
                    .any(|relation| relations.contains(relation)) =>
            {
                attribute("href")
            }
            "iframe" | "frame" => attribute("src"),
            "base" => {
                let mut base = self.base.borrow_mut();
                *base = base.take().or_else(|| attribute("href"));
                None
            }
            "meta" => {
                let content = attribute("content").unwrap_or_default();
                let name = attribute("name").unwrap_or_default().to_ascii_lowercase();
                let forbids = content.to_ascii_lowercase();
                if (name == "robots" || name == "peercrawl")
                    && (forbids.contains("nofollow") || forbids.contains("none"))
                {
                    self.nofollow.set(true);
                }
                let equiv = attribute("http-equiv").unwrap_or_default();
                let refreshes = equiv.eq_ignore_ascii_case("refresh");
                match refresh(&content).filter(|_| refreshes && !self.refreshed.get()) {
                    Some(url) => {
                        self.refreshed.set(true);
                        (!url.is_empty()).then_some(url)
                    }
                    None => None,
                }
            }
            _ => None,
        };
        // A frame or a refresh has no relation, whatever it says.
        let is_anchor = matches!(&*tag.name, "a" | "area" | "link");
        let counts = !(is_anchor && relations.contains(&"nofollow"));
        self.hrefs.borrow_mut().extend(link.filter(|_| counts));
    }
}

/// The URL of a refresh in its usual forms, empty if it reloads the page.
fn refresh(content: &str) -> Option<String> {
    let (seconds, url) = content.split_once([';', ',']).unwrap_or((content, ""));
    seconds.trim().parse::<f64>().ok()?;
    let url = url.trim_start();
    let value = if url.len() > 4 && url[..4].eq_ignore_ascii_case("url=") {
        url[4..].trim_start()
    } else {
        url
    };
    Some(value.trim_matches(['\'', '"']).to_owned())
}

/// An element, comment or fragment: nobody looks at more than its name.
struct Node {
    name: QualName,
}

impl Node {
    fn nameless() -> Rc<Self> {
        Rc::new(Self {
            name: QualName::new(None, ns!(), local_name!("")),
        })
    }
}

/// A tree that only keeps what the reader asks for.
#[derive(Default)]
struct Tree {
    /// Elements made for the tag at hand, those that it only implied too.
    created: RefCell<Vec<QualName>>,
}

impl TreeSink for Tree {
    type Handle = Rc<Node>;
    type Output = Self;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Self {
        self
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> Rc<Node> {
        self.created.borrow_mut().push(name.clone());
        Rc::new(Node { name })
    }

    fn elem_name<'a>(&'a self, target: &'a Rc<Node>) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn same_node(&self, x: &Rc<Node>, y: &Rc<Node>) -> bool {
        Rc::ptr_eq(x, y)
    }

    fn get_document(&self) -> Rc<Node> {
        Node::nameless()
    }

    fn get_template_contents(&self, _: &Rc<Node>) -> Rc<Node> {
        Node::nameless()
    }

    fn create_comment(&self, _: StrTendril) -> Rc<Node> {
        Node::nameless()
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Rc<Node> {
        Node::nameless()
    }

    fn parse_error(&self, _: Cow<'static, str>) {}
    fn append(&self, _: &Rc<Node>, _: NodeOrText<Rc<Node>>) {}
    fn append_based_on_parent_node(&self, _: &Rc<Node>, _: &Rc<Node>, _: NodeOrText<Rc<Node>>) {}
    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}
    fn append_before_sibling(&self, _: &Rc<Node>, _: NodeOrText<Rc<Node>>) {}
    fn set_quirks_mode(&self, _: QuirksMode) {}
    fn add_attrs_if_missing(&self, _: &Rc<Node>, _: Vec<Attribute>) {}
    fn remove_from_parent(&self, _: &Rc<Node>) {}
    fn reparent_children(&self, _: &Rc<Node>, _: &Rc<Node>) {}
}
