// SPDX-License-Identifier: GPL-2.0-only
//! A second process that has the device open and owns objects.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Node;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;

use crate::system;

/// First argument of the program when it runs as the second process.
pub const ARGUMENT: &str = "--foreign";

/// Objects of each kind in the second process. With this many, this process does not use the last number itself.
const COUNT: usize = 64;

/// The second process. It ends when this is dropped.
#[derive(Debug)]
pub struct Foreign {
    child: Child,
    numbers: Vec<u64>,
}

impl Foreign {
    /// Starts the process and waits until it owns its objects.
    pub fn start() -> Result<Self> {
        let mut child = system::again(&[ARGUMENT])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("no pipe")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let numbers = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<u64>, _>>();
        let foreign = Self {
            numbers: numbers.with_context(|| format!("the other process says {line:?}"))?,
            child,
        };
        anyhow::ensure!(
            foreign.numbers.len() == 7,
            "the other process says {line:?}"
        );
        Ok(foreign)
    }

    fn a_node(&self, index: usize, pool: Pool) -> Node {
        Node {
            handle: self.numbers[index],
            pool,
            bytes: 4096,
            surface_type: surface::BITMAP,
        }
    }

    /// An unlocked node of the pool.
    pub fn node(&self) -> Node {
        self.a_node(0, Pool::SYSTEM)
    }

    /// An unlocked page-backed node.
    pub fn page_node(&self) -> Node {
        self.a_node(1, Pool::CONTIGUOUS)
    }

    /// The handle of a contiguous buffer.
    pub fn buffer(&self) -> u32 {
        self.numbers[2] as u32
    }

    /// The number of a signal.
    pub fn signal(&self) -> i32 {
        self.numbers[3] as i32
    }

    /// The GPU address of the contiguous buffer.
    pub fn buffer_address(&self) -> u32 {
        self.numbers[6] as u32
    }

    /// The handle of mapped user memory.
    pub fn user_memory(&self) -> u32 {
        self.numbers[5] as u32
    }

    /// The handle of a context.
    pub fn context(&self) -> u32 {
        self.numbers[4] as u32
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The process ends at the end of its standard input. A drop cannot report an error.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The body of the second process.
pub fn hold() -> ExitCode {
    let go = || -> Result<()> {
        let device = Device::open()?;
        let mut last = [0; 7];
        // Pinned page by page. Must stay mapped.
        let own = Region::anonymous(COUNT * 4096)?;
        for index in 0..COUNT {
            let buffer = device.allocate_contiguous(4096)?;
            let pinned = device.map_user(own.address() + index as u64 * 4096, 4096)?;
            last = [
                device
                    .allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?
                    .handle,
                device
                    .allocate(4096, 64, surface::BITMAP, Pool::CONTIGUOUS)?
                    .handle,
                buffer.physical.into(),
                device.create_signal(true)? as u64,
                device.attach()?.context.into(),
                pinned.info.into(),
                buffer.address.into(),
            ];
        }
        println!("{}", last.map(|number| number.to_string()).join(" "));
        std::io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    };
    crate::harness::exit(go())
}
