// SPDX-License-Identifier: GPL-2.0-only
//! Reads the imports of the kernel module's source and compares them with the order of its rooms.
//!
//! A room is a file or a folder directly under the source folder. The list names them from the top down, a
//! line for each layer; an import that names a room of the same line, or of one above, is printed with
//! its file, its line and the name. Paths count wherever they stand: in `use`, in code, in macros.

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

/// Says which imports of the kernel module go up, or across.
#[derive(Parser)]
struct Options {
    /// The source folder.
    source: PathBuf,
    /// The list of the rooms.
    list: PathBuf,
}

/// Rooms, each with the number of its line: the higher, the lower it stands.
struct Layers(HashMap<String, usize>);

impl Layers {
    /// Reads the list: names, a line for each layer; what follows a `#` is a comment.
    fn parse(text: &str) -> Result<Self> {
        let mut rooms = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let names = line.split('#').next().unwrap_or_default();
            for name in names.split_whitespace() {
                if rooms.insert(name.to_string(), number).is_some() {
                    bail!("room {name} stands twice in the list");
                }
            }
        }
        Ok(Self(rooms))
    }

    fn line(&self, room: &str) -> Result<usize> {
        let line = self.0.get(room).copied();
        line.ok_or_else(|| anyhow!("room {room} is not in the list"))
    }
}

/// A path to another room.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    line: usize,
    room: String,
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

/// The first names of the paths that begin with `tokens`, behind a `::`, and their lines.
fn first_names(tokens: &[TokenTree]) -> Vec<(String, usize)> {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => {
            let line = name.span().start().line;
            if name == "self" {
                vec![(ALL.to_string(), line)]
            } else {
                vec![(name.to_string(), line)]
            }
        }
        Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
            vec![(ALL.to_string(), star.span().start().line)]
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

/// Adds the imports of `tokens`, which lie `depth` modules deep.
fn scan(tokens: TokenStream, depth: usize, imports: &mut Vec<Import>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "mod" => {
                // An inner module is one deeper.
                if let Some(TokenTree::Group(group)) = tokens.get(at + 2) {
                    scan(group.stream(), depth + 1, imports);
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
                    vec![(ALL.to_string(), word.span().start().line)]
                } else {
                    Vec::new()
                };
                if left == 0 {
                    let found = names.into_iter();
                    imports.extend(found.map(|(room, line)| Import { line, room }));
                }
                at = next - 1;
            }
            TokenTree::Group(group) => scan(group.stream(), depth, imports),
            _ => {}
        }
        at += 1;
    }
}

/// The imports of a file that lies at `file` under the source folder.
fn imports_of(file: &Path, text: &str) -> Result<Vec<Import>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let mut imports = Vec::new();
    scan(tokens, depth_of(file), &mut imports);
    Ok(imports)
}

/// Compares the imports of one file with the list.
fn faults_of(layers: &Layers, file: &Path, text: &str) -> Result<Vec<Fault>> {
    let from = room_of(file).context("it has no room")?;
    let own = layers.line(&from)?;
    let mut faults = Vec::new();
    for import in imports_of(file, text)? {
        if import.room == ALL {
            faults.push(Fault {
                file: file.to_path_buf(),
                line: import.line,
                from: from.clone(),
                to: import.room,
                is_up: true,
            });
            continue;
        }
        // A macro of ours, or the module's own items.
        let Some(&line) = layers.0.get(&import.room) else {
            continue;
        };
        if import.room != from && line <= own {
            faults.push(Fault {
                file: file.to_path_buf(),
                line: import.line,
                from: from.clone(),
                to: import.room,
                is_up: line < own,
            });
        }
    }
    Ok(faults)
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
    let files = files_of(&options.source)?;
    for path in &files {
        let file = path.strip_prefix(&options.source)?;
        let text = fs::read_to_string(path)?;
        let faults = faults_of(&layers, file, &text).with_context(|| path.display().to_string())?;
        for fault in &faults {
            println!("{fault}");
        }
        count += faults.len();
    }
    println!(
        "{} files, {count} imports that go up or across",
        files.len()
    );
    Ok(count)
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
        let faults = faults_of(&layers, Path::new(file), text).unwrap();
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
        assert!(faults_of(&layers, Path::new("attic/mod.rs"), "").is_err());
        assert!(Layers::parse("a b\nc a\n").is_err());
    }
}
