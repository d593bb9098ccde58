// SPDX-License-Identifier: GPL-2.0-only
//! The list of cases, whose form `tests/abi/behaviour/README.md` describes.

use std::collections::HashMap;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;

/// One case: calls by a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name, and what was varied.
    pub name: String,
    /// What it does.
    pub steps: Vec<Step>,
}

/// A line of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Preparation: told only when it fails.
    pub quiet: bool,
    /// What is done.
    pub text: String,
}

/// A block of the list, before it is expanded.
#[derive(Clone, Debug, Default)]
struct Block<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    /// Field and values that take the place of one in the line with `*`.
    variations: Vec<(&'a str, Vec<String>)>,
}

/// The cases of a list, in order.
pub fn read(text: &str) -> Result<Vec<Case>> {
    let mut definitions = HashMap::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut block: Option<Block<'_>> = None;
    let mut is_case = false;
    for (index, line) in text.lines().chain(["end"]).enumerate() {
        let content = line.split(" #").next().unwrap_or_default().trim_end();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let whole = || format!("line {}: {line:?}", index + 1);
        if let Some(inner) = content.strip_prefix(char::is_whitespace) {
            let block = block.as_mut().with_context(whole)?;
            add(block, inner.trim(), &definitions).with_context(whole)?;
            continue;
        }
        if let Some(done) = block.take() {
            if is_case {
                expand(&done, &mut cases).with_context(|| done.name.to_string())?
            } else {
                definitions.insert(done.name, done.lines);
            }
        }
        let (word, name) = content.split_once(' ').unwrap_or((content, ""));
        is_case = match word {
            "case" => true,
            "define" => false,
            "end" => break,
            _ => bail!(whole()),
        };
        block = Some(Block {
            name,
            ..Default::default()
        });
    }
    for (index, case) in cases.iter().enumerate() {
        let twin = cases[..index].iter().any(|other| other.name == case.name);
        ensure!(!twin, "{} is there twice", case.name);
    }
    Ok(cases)
}

fn add<'a>(
    block: &mut Block<'a>,
    line: &'a str,
    definitions: &HashMap<&str, Vec<&'a str>>,
) -> Result<()> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "use" => block
            .lines
            .extend(definitions.get(rest).context("no such definition")?),
        "vary" => {
            for part in rest.split_whitespace() {
                let (field, values) = part.split_once('=').context("no values")?;
                let mut all = Vec::new();
                for value in values.split('|') {
                    match value.split_once("..") {
                        Some((first, last)) => {
                            let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
                            all.extend((first..=last).map(|value| value.to_string()));
                        }
                        None => all.push(value.to_string()),
                    }
                }
                block.variations.push((field, all));
            }
        }
        _ => block.lines.push(line),
    }
    Ok(())
}

/// The block as it is, and once more for each value of each field that is varied.
fn expand(block: &Block<'_>, cases: &mut Vec<Case>) -> Result<()> {
    let steps = |field: Option<(&str, &str)>| -> Result<Vec<Step>> {
        let mut changed = field.is_none();
        let steps = block.lines.iter().map(|line| {
            let (quiet, text) = match line.strip_prefix(". ") {
                Some(text) => (true, text),
                None => (false, *line),
            };
            let text = match (text.strip_prefix("* "), field) {
                (Some(text), Some((field, value))) => {
                    changed = true;
                    with_field(text, field, value)
                }
                (text, _) => text.unwrap_or(line.trim_start_matches(". ")).to_string(),
            };
            Step { quiet, text }
        });
        let steps = steps.collect();
        ensure!(changed, "no line to vary");
        Ok(steps)
    };
    cases.push(Case {
        name: block.name.to_string(),
        steps: steps(None)?,
    });
    for (field, values) in &block.variations {
        for value in values {
            cases.push(Case {
                name: format!("{}/{field}={value}", block.name),
                steps: steps(Some((field, value)))?,
            });
        }
    }
    Ok(())
}

/// The step with another value of a field, or with one more field.
fn with_field(text: &str, field: &str, value: &str) -> String {
    let start = format!("{field}=");
    let given = format!("{field}={value}");
    let mut words: Vec<&str> = text.split_whitespace().collect();
    match words.iter_mut().find(|word| word.starts_with(&start)) {
        Some(word) => *word = &given,
        None => words.push(&given),
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(case: &Case) -> Vec<(bool, &str)> {
        let steps = case.steps.iter();
        steps.map(|step| (step.quiet, step.text.as_str())).collect()
    }

    #[test]
    fn cases_are_varied() {
        let text = "# A list.\ndefine node\n\t. n = ALLOCATE bytes=4\n\ncase lock # why\n\tuse node\n\t* LOCK node=$n op=3\n\
            \tvary op=0..1 x=7|$n\ncase version\n\tVERSION\n";
        let cases = read(text).unwrap();
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "lock",
                "lock/op=0",
                "lock/op=1",
                "lock/x=7",
                "lock/x=$n",
                "version"
            ]
        );
        assert_eq!(
            lines(&cases[2]),
            [(true, "n = ALLOCATE bytes=4"), (false, "LOCK node=$n op=1")]
        );
        assert_eq!(lines(&cases[4])[1], (false, "LOCK node=$n op=3 x=$n"));
        assert_eq!(lines(&cases[5]), [(false, "VERSION")]);
    }

    #[test]
    fn mistakes_are_told() {
        for text in [
            "case a\n\tuse nothing\n",
            "case a\n\tVERSION\n\tvary x=1\n",
            "something a\n",
            "\tVERSION\n",
            "case a\n\tVERSION\ncase a\n\tVERSION\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_list_can_be_read() {
        let cases = read(include_str!("../../../abi/behaviour/cases.txt")).unwrap();
        assert!(cases.len() >= 300, "{}", cases.len());
    }
}
