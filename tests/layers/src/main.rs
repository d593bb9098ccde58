// SPDX-License-Identifier: GPL-2.0-only
//! Reads the imports of the kernel module's source and compares them with the order of its rooms.
//!
//! A room is a file or a folder directly under the source folder. The list names them from the top down, a
//! line for each layer; an import that names a room of the same line, or of one above, is printed with
//! its file, its line and the name. Paths count wherever they stand: in `use`, in code, in macros.
//!
//! Files of one room that import each other in a circle are printed, too, unless the list allows the circle.
//! A file and those in the folder of its name count as one. `mod.rs` and `tests.rs` do not count, and neither
//! does an item that a path names through `mod.rs`, or through a room that is renamed or imported whole.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use clap::Parser;
use proc_macro2::Delimiter;
use proc_macro2::TokenStream;
use proc_macro2::TokenTree;

/// Says which imports of the kernel module go up, across, or in a circle.
#[derive(Parser)]
struct Options {
    /// The source folder.
    source: PathBuf,
    /// The list of the rooms.
    list: PathBuf,
}

/// The first word of a line of the list that allows a circle.
const CIRCLE: &str = "circle";

/// The list of the rooms.
struct Layers {
    /// Rooms, each with the number of its line: the higher, the lower it is.
    lines: HashMap<String, usize>,
    /// The circles that are allowed.
    circles: BTreeSet<Circle>,
}

/// The files of a room that import each other in a circle.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Circle {
    room: String,
    files: BTreeSet<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "room {}:", self.room)?;
        self.files.iter().try_for_each(|file| write!(f, " {file}"))
    }
}

impl Layers {
    /// Reads the list: names, a line for each layer; what follows a `#` is a comment. A line `circle` names
    /// a room and files of it, and says in the comment why they may import each other.
    fn parse(text: &str) -> Result<Self> {
        let (mut lines, mut circles) = (HashMap::new(), BTreeSet::new());
        for (number, line) in text.lines().enumerate() {
            let (names, why) = line.split_once('#').unwrap_or((line, ""));
            let mut names = names.split_whitespace().map(str::to_string).peekable();
            if names.next_if(|name| name == CIRCLE).is_some() {
                let room = names.next().context("a circle has no room")?;
                let files = names.collect();
                if why.trim().is_empty() {
                    bail!("the list does not say why a circle of room {room} is allowed");
                }
                circles.insert(Circle { room, files });
                continue;
            }
            for name in names {
                if lines.contains_key(&name) {
                    bail!("room {name} stands twice in the list");
                }
                lines.insert(name, number);
            }
        }
        Ok(Self { lines, circles })
    }

    fn line(&self, room: &str) -> Result<usize> {
        let line = self.lines.get(room).copied();
        line.ok_or_else(|| anyhow!("room {room} is not in the list"))
    }
}

/// A path to another room, or to another file of the room.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    line: usize,
    room: String,
    /// What follows the room in the path: the name of a file or an item.
    item: Option<String>,
}

/// Something that is not as the list says.
#[derive(Debug)]
struct Fault {
    file: PathBuf,
    line: usize,
    from: String,
    to: String,
    is_up: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_up { "above" } else { "beside" };
        write!(
            f,
            "{}:{}: room {} imports room {}, which stands {how} it",
            self.file.display(),
            self.line,
            self.from,
            self.to
        )
    }
}

/// The room of a file: the first part of its path under the source folder.
fn room_of(file: &Path) -> Option<String> {
    let first = file.components().next()?.as_os_str();
    Some(Path::new(first).file_stem()?.to_str()?.to_string())
}

/// The file of a room, of which `file` is a part: the second part of its path. `None`: it does not count.
fn unit_of(file: &Path) -> Option<String> {
    let name = file.components().nth(1)?;
    let stem = Path::new(name.as_os_str()).file_stem()?.to_str()?;
    let is_test = file.ends_with("tests.rs");
    (stem != "mod" && !is_test).then(|| stem.to_string())
}

/// How many modules deep the file's own items are: 1 for those of a room itself.
fn depth_of(file: &Path) -> usize {
    let parts = file.components().count();
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod") => parts - 1,
        _ => parts,
    }
}

/// What stands for all rooms at once: the crate itself, by whatever name, or all of its names.
const ALL: &str = "*";

/// The first name of a path, the second if there is one, and the line of the first.
type Names = (String, Option<String>, usize);

/// The names of the paths that begin with `tokens`, after a `::`.
fn first_names(tokens: &[TokenTree]) -> Vec<Names> {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => {
            let line = name.span().start().line;
            if name == "self" {
                return vec![(ALL.to_string(), None, line)];
            }
            let more = if is_path_separator(&tokens[1..]) {
                first_names(&tokens[3..])
            } else {
                Vec::new()
            };
            if more.is_empty() {
                return vec![(name.to_string(), None, line)];
            }
            let seconds = more.into_iter().map(|(second, ..)| Some(second));
            seconds
                .map(|second| (name.to_string(), second, line))
                .collect()
        }
        Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
            vec![(ALL.to_string(), None, star.span().start().line)]
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inside: Vec<_> = group.stream().into_iter().collect();
            let is_comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
            inside.split(is_comma).flat_map(first_names).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether `tokens` begin with `::`.
fn is_path_separator(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == ':');
    is_colon(tokens.first()) && is_colon(tokens.get(1))
}

/// Adds the imports of `tokens`, which lie `depth` modules deep in room `own`.
fn scan(tokens: TokenStream, own: &str, depth: usize, imports: &mut Vec<Import>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "mod" => {
                // An inner module is one deeper.
                if let Some(TokenTree::Group(group)) = tokens.get(at + 2) {
                    scan(group.stream(), own, depth + 1, imports);
                    at += 2;
                }
            }
            TokenTree::Ident(word) if word == "crate" || word == "super" => {
                let mut left = if word == "crate" {
                    0
                } else {
                    depth.saturating_sub(1)
                };
                let mut next = at + 1;
                while is_path_separator(&tokens[next..])
                    && matches!(tokens.get(next + 2), Some(TokenTree::Ident(word)) if word == "super")
                {
                    left = left.saturating_sub(1);
                    next += 3;
                }
                let is_renamed =
                    matches!(tokens.get(next), Some(TokenTree::Ident(word)) if word == "as");
                let names = if is_path_separator(&tokens[next..]) {
                    first_names(&tokens[next + 2..])
                } else if is_renamed {
                    vec![(ALL.to_string(), None, word.span().start().line)]
                } else {
                    Vec::new()
                };
                imports.extend(names.into_iter().filter_map(|(first, second, line)| {
                    let (room, item) = match left {
                        0 => (first, second),
                        1 => (own.to_string(), Some(first)),
                        _ => return None,
                    };
                    Some(Import { line, room, item })
                }));
                at = next - 1;
            }
            TokenTree::Group(group) => scan(group.stream(), own, depth, imports),
            _ => {}
        }
        at += 1;
    }
}

/// The imports of a file that lies at `file` under the source folder.
fn imports_of(file: &Path, text: &str) -> Result<Vec<Import>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let own = room_of(file).context("it has no room")?;
    let mut imports = Vec::new();
    scan(tokens, &own, depth_of(file), &mut imports);
    Ok(imports)
}

/// Compares the `imports` of one file with the list.
fn faults_of(layers: &Layers, file: &Path, imports: &[Import]) -> Result<Vec<Fault>> {
    let from = room_of(file).context("it has no room")?;
    let own = layers.line(&from)?;
    let mut faults = Vec::new();
    for import in imports {
        if import.room == ALL {
            faults.push(Fault {
                file: file.to_path_buf(),
                line: import.line,
                from: from.clone(),
                to: import.room.clone(),
                is_up: true,
            });
            continue;
        }
        // A macro of ours, or the module's own items.
        let Some(&line) = layers.lines.get(&import.room) else {
            continue;
        };
        if import.room != from && line <= own {
            faults.push(Fault {
                file: file.to_path_buf(),
                line: import.line,
                from: from.clone(),
                to: import.room.clone(),
                is_up: line < own,
            });
        }
    }
    // A path that names several items of a room is one fault.
    faults.dedup_by(|a, b| (a.line, &a.to) == (b.line, &b.to));
    Ok(faults)
}

/// For each file of a room, the files of the room that it imports, each with the place of the first import.
#[derive(Default)]
struct Graph(BTreeMap<String, BTreeMap<String, (PathBuf, usize)>>);

impl Graph {
    /// Adds the imports of `unit` that lie in `file`, a part of it.
    fn add(&mut self, unit: String, file: &Path, imports: Vec<Import>) {
        let own = room_of(file);
        let edges = self.0.entry(unit).or_default();
        for import in imports {
            if let (true, Some(item)) = (Some(import.room) == own, import.item) {
                let place = (file.to_path_buf(), import.line);
                edges.entry(item).or_insert(place);
            }
        }
    }

    /// The files that `unit` imports, also by way of others.
    fn reach<'a>(&'a self, unit: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut left) = (BTreeSet::new(), vec![unit]);
        while let Some(next) = left.pop() {
            let edges = self.0.get(next).into_iter().flat_map(BTreeMap::keys);
            let known = edges.filter(|item| self.0.contains_key(*item));
            left.extend(known.map(String::as_str).filter(|item| found.insert(*item)));
        }
        found
    }

    /// The circles of `room`, which this is of.
    fn circles(&self, room: &str) -> BTreeSet<Circle> {
        let reach: BTreeMap<_, _> = self
            .0
            .keys()
            .map(|unit| (unit.as_str(), self.reach(unit)))
            .collect();
        let mut circles = BTreeSet::new();
        for (unit, reached) in &reach {
            let is_back = |other: &&&str| reach[**other].contains(unit);
            let files: BTreeSet<_> = reached
                .iter()
                .filter(is_back)
                .map(ToString::to_string)
                .collect();
            if files.len() > 1 {
                let room = room.to_string();
                circles.insert(Circle { room, files });
            }
        }
        circles
    }

    /// Prints the imports of `circle`.
    fn print(&self, circle: &Circle) {
        println!("{circle}: these files import each other in a circle");
        for from in &circle.files {
            for (to, (file, line)) in &self.0[from] {
                if from != to && circle.files.contains(to) {
                    println!("    {}:{line}: {from} imports {to}", file.display());
                }
            }
        }
    }
}

/// Compares the circles of all rooms with the list. Prints what is not allowed, and what is allowed and not
/// there. Returns their number.
fn check_circles(layers: &Layers, graphs: &BTreeMap<String, Graph>) -> usize {
    let mut count = 0;
    let mut unused: BTreeSet<_> = layers.circles.iter().collect();
    for (room, graph) in graphs {
        for circle in graph.circles(room) {
            if !unused.remove(&circle) {
                graph.print(&circle);
                count += 1;
            }
        }
    }
    for circle in &unused {
        println!("{circle}: the list allows a circle that does not exist");
    }
    count + unused.len()
}

/// The Rust files under `folder`, in order.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_of(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn run(options: &Options) -> Result<usize> {
    let list =
        fs::read_to_string(&options.list).with_context(|| options.list.display().to_string())?;
    let layers = Layers::parse(&list)?;
    let mut count = 0;
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    let files = files_of(&options.source)?;
    for path in &files {
        let file = path.strip_prefix(&options.source)?;
        let text = fs::read_to_string(path)?;
        let imports = imports_of(file, &text).with_context(|| path.display().to_string())?;
        let faults =
            faults_of(&layers, file, &imports).with_context(|| path.display().to_string())?;
        for fault in &faults {
            println!("{fault}");
        }
        count += faults.len();
        if let (Some(room), Some(unit)) = (room_of(file), unit_of(file)) {
            graphs.entry(room).or_default().add(unit, file, imports);
        }
    }
    let circles = check_circles(&layers, &graphs);
    println!(
        "{} files, {count} imports that go up or across, {circles} faults of circles",
        files.len()
    );
    Ok(count + circles)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# top\ntop\nring mmu # two\nsys\nerror\n";

    fn faults(file: &str, text: &str) -> Vec<(usize, String, bool)> {
        let layers = Layers::parse(LIST).unwrap();
        let imports = imports_of(Path::new(file), text).unwrap();
        let faults = faults_of(&layers, Path::new(file), &imports).unwrap();
        let fields = |fault: Fault| (fault.line, fault.to, fault.is_up);
        faults.into_iter().map(fields).collect()
    }

    #[test]
    fn imports_of_lower_rooms_are_right() {
        let text =
            "use crate::{\n    error::Result,\n    sys::{self, dma}, //\n};\nuse super::space;\n";
        assert!(faults("ring/state.rs", text).is_empty());
        assert!(faults("top.rs", "use crate::ring::Ring;").is_empty());
    }

    #[test]
    fn an_import_that_goes_up_is_found() {
        let text = "use kernel::prelude::*;\nuse crate::{\n    error::Result,\n    top::{\n        A, //\n    },\n};\n";
        assert_eq!(faults("sys/dma.rs", text), [(4, "top".into(), true)]);
        assert_eq!(
            faults("error.rs", "type T = crate::sys::T;"),
            [(1, "sys".into(), true)]
        );
    }

    #[test]
    fn an_import_that_goes_across_is_found() {
        assert_eq!(
            faults("mmu/mod.rs", "\nuse crate::ring::Ring;"),
            [(2, "ring".into(), false)]
        );
    }

    #[test]
    fn paths_count_wherever_they_stand() {
        let up = [(1, "ring".into(), true)];
        for text in [
            "fn f() { g(crate::ring::new()) }",
            "m! { a => crate::ring::B }",
            "macro_rules! m { () => { $crate::ring::B } }",
            "fn f() { super::super::ring::new() }",
            "mod tests { use super::super::super::ring::A; }",
        ] {
            assert_eq!(faults("sys/dma.rs", text), up, "{text}");
        }
        assert_eq!(faults("sys/mod.rs", "use super::ring::A;"), up);
        // The crate under another name, or all of its names: what is named behind that is not seen.
        let all = [(1, "*".into(), true)];
        for text in [
            "use crate::*;",
            "use crate as all;",
            "use crate::{self as all};",
            "use crate::{*};",
            "use super::super::*;",
            "mod tests { use super::super::super as all; }",
        ] {
            assert_eq!(faults("sys/dma.rs", text), all, "{text}");
        }
        assert!(faults("sys/dma.rs", "use super::*; pub(crate) fn f() {}").is_empty());
        // Within the room.
        assert!(faults("sys/dma.rs", "use super::ring::A;").is_empty());
        assert!(faults("sys/dma.rs", "mod tests { use super::super::ring; }").is_empty());
        // Comments are no imports.
        assert!(faults("sys/dma.rs", "//! [`crate::ring::Ring`]\n").is_empty());
    }

    #[test]
    fn a_room_that_is_not_in_the_list_is_an_error() {
        let layers = Layers::parse(LIST).unwrap();
        assert!(faults_of(&layers, Path::new("attic/mod.rs"), &[]).is_err());
        assert!(Layers::parse("a b\nc a\n").is_err());
    }

    #[test]
    fn several_items_of_one_path_are_one_fault() {
        assert_eq!(
            faults("error.rs", "use crate::sys::{A, b::C};"),
            [(1, "sys".into(), true)]
        );
    }

    fn graph(files: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (file, text) in files {
            let imports = imports_of(Path::new(file), text).unwrap();
            if let Some(unit) = unit_of(Path::new(file)) {
                graph.add(unit, Path::new(file), imports);
            }
        }
        graph
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let circles = graph(files).circles("ring");
        circles.iter().map(Circle::to_string).collect()
    }

    #[test]
    fn a_circle_of_files_is_found() {
        let ab = ["room ring: a b"];
        for back in [
            "use super::a::A;",
            "use super::{c::C, a};",
            "use crate::{ring::{b::B, a::A}, sys};",
            "fn f() { crate::ring::a::f() }",
            "mod tests { use super::super::a::*; }",
        ] {
            let files = [("ring/a.rs", "use super::b::B;"), ("ring/b.rs", back)];
            assert_eq!(circles(&files), ab, "{back}");
        }
        let longer = [
            ("ring/a.rs", "use super::b::B;"),
            ("ring/b.rs", "use super::c::C;"),
            ("ring/c.rs", "use super::a::A;"),
            ("ring/d.rs", "use super::{a::A, e::E};"),
            ("ring/e.rs", "use super::d::D;"),
        ];
        assert_eq!(circles(&longer), ["room ring: a b c", "room ring: d e"]);
    }

    #[test]
    fn imports_in_one_direction_are_no_circle() {
        let files = [
            ("ring/a.rs", "use super::{b::B, c::C}; use super::a::A;"),
            ("ring/b.rs", "use super::c::C; use crate::sys::a::A;"),
            ("ring/c.rs", "use super::{self, A}; use super::*;"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_file_and_its_folder_are_one() {
        let apart = [
            ("ring/a.rs", "use a::x::X;"),
            ("ring/a/x.rs", "use super::A; use super::y::Y;"),
            ("ring/a/y.rs", "use super::x::X;"),
            ("ring/b.rs", "use super::a::A;"),
        ];
        assert!(circles(&apart).is_empty());
        let joined = [
            ("ring/a/x.rs", "use super::super::b::B;"),
            ("ring/b.rs", "use super::a::A;"),
        ];
        assert_eq!(circles(&joined), ["room ring: a b"]);
    }

    #[test]
    fn rooms_themselves_and_tests_do_not_count() {
        let files = [
            ("ring/mod.rs", "use a::A; use crate::ring::a;"),
            ("ring/a.rs", "use super::tests::T; use super::A;"),
            ("ring/tests.rs", "use super::a::A;"),
            ("ring/b/tests.rs", "use super::super::c::C;"),
            ("ring/c.rs", "use super::b::B;"),
            ("ring.rs", "use crate::ring::a::A;"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn the_list_allows_circles_that_exist() {
        let files = [
            ("ring/a.rs", "use super::b::B;"),
            ("ring/b.rs", "use super::a::A;"),
        ];
        let wrong = |list: &str| {
            let layers = Layers::parse(&format!("{LIST}{list}")).unwrap();
            check_circles(&layers, &BTreeMap::from([("ring".into(), graph(&files))]))
        };
        assert_eq!(wrong(""), 1);
        assert_eq!(wrong("circle ring b a # pure logic\n"), 0);
        // This one and the real one.
        assert_eq!(wrong("circle ring a b c # pure logic\n"), 2);
        assert_eq!(wrong("circle mmu a b # pure logic\n"), 2);
        assert!(Layers::parse("circle ring a b\n").is_err());
        assert!(Layers::parse("circle # why\n").is_err());
    }
}
