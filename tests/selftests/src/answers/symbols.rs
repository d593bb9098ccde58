// SPDX-License-Identifier: GPL-2.0-only
//! Numbers that a driver is free to choose.

use std::collections::HashMap;

/// What a field's value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The number itself.
    Number,
    /// Nothing but whether it is the one of before: a handle, an address.
    Symbol(&'static str),
    /// Whether it is 0.
    Amount,
    /// Nothing.
    Nothing,
}

fn meaning(field: &str) -> Meaning {
    let name = field.rsplit('.').next().unwrap_or(field);
    match field {
        "UserSignal.id" => return Meaning::Symbol("signal"),
        "ShBuf.id" => return Meaning::Symbol("shared"),
        "NameVideoMemory.name" => return Meaning::Symbol("name"),
        "LockVideoMemory.address" => return Meaning::Symbol("gpu"),
        "WrapUserMemory.desc.handle" => return Meaning::Number,
        "ReadRegisterData.data" | "QueryResetTimeStamp.timeStamp" => return Meaning::Amount,
        _ => {}
    }
    match name {
        "node" | "handle" => Meaning::Symbol("node"),
        "fd" | "fenceFD" => Meaning::Symbol("fd"),
        "logical" | "memory" => Meaning::Symbol("view"),
        "physName" | "internalPhysName" | "externalPhysName" | "contiguousPhysName" => {
            Meaning::Symbol("memory")
        }
        "gid" => Meaning::Symbol("gid"),
        "context" => Meaning::Symbol("context"),
        "commitStamp" => Meaning::Symbol("stamp"),
        "timeDelta" | "mcClk" | "shClk" | "CPUFrequency" => Meaning::Amount,
        "time" | "physicalAddress" | "dmabuf" => Meaning::Nothing,
        _ => Meaning::Number,
    }
}

/// The numbers of one case.
#[derive(Debug, Default)]
pub struct Symbols {
    known: HashMap<&'static str, Vec<u64>>,
    told: Vec<String>,
}

impl Symbols {
    /// From now on it is told whether a field of this name is 0, of which nothing is told else.
    pub fn show(&mut self, field: &str) {
        self.told.push(field.to_string());
    }

    /// What is to be told of a field that holds `value` now; `None`: nothing.
    pub fn tell(&mut self, field: &str, value: u64) -> Option<String> {
        let number = match value {
            value if value > u64::MAX - 0x1000 => format!("-{}", value.wrapping_neg()),
            value if value < 10 => value.to_string(),
            value => format!("{value:#x}"),
        };
        Some(match meaning(field) {
            Meaning::Nothing => {
                let is_told = self.told.iter().any(|told| field.ends_with(told.as_str()));
                return is_told.then(|| if value == 0 { "0" } else { "some" }.to_string());
            }
            _ if value == 0 => number,
            Meaning::Number => number,
            Meaning::Amount => "some".to_string(),
            Meaning::Symbol(class) => self.symbol(class, value),
        })
    }

    fn symbol(&mut self, class: &'static str, value: u64) -> String {
        let known = self.known.entry(class).or_default();
        let place = known.iter().position(|other| *other == value);
        let place = place.unwrap_or_else(|| {
            known.push(value);
            known.len() - 1
        });
        format!("{class}{}", place + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_tell_what_is_the_same() {
        let mut symbols = Symbols::default();
        let mut tell = |field, value| symbols.tell(field, value);
        let some = |text: &str| Some(text.to_string());
        assert_eq!(tell("AllocateLinearVideoMemory.node", 77), some("node1"));
        assert_eq!(tell("AllocateLinearVideoMemory.node", 78), some("node2"));
        assert_eq!(tell("ImportVideoMemory.handle", 77), some("node1"));
        assert_eq!(tell("LockVideoMemory.address", 1 << 31), some("gpu1"));
        assert_eq!(tell("LockVideoMemory.address", 0), some("0"));
        assert_eq!(
            tell("AllocateLinearVideoMemory.bytes", 4096),
            some("0x1000")
        );
        assert_eq!(tell("Database.vidMem.time", 5), None);
        assert_eq!(tell("QueryChipFrequency.mcClk", 5), some("some"));
    }
}
