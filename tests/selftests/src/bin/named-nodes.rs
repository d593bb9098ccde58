// SPDX-License-Identifier: GPL-2.0-only
//! Nodes that processes share by name: NAME_VIDEO_MEMORY and IMPORT_VIDEO_MEMORY, from generation 5 on.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Location;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_selftests::harness;
use galcore_selftests::harness::at_rest;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::system::ProcGc;
use galcore_selftests::video;
use galcore_selftests::video::expect_all;
use galcore_selftests::video::gpu_fill;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::BLOCK;

const BYTES: u32 = 4 * 4096;

const POOLS: [Pool; 3] = [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL];

/// Color that the other process's GPU draws.
const DRAWN: u32 = 0xd4a3_0001;
/// Value that the other process's CPU writes.
const WRITTEN: u32 = 0x0b0b_0b0b;

fn client(abi: &'static Abi) -> Result<Client> {
    let device = Device::open_as(abi, true)?;
    Ok(Client::with_device(device)?)
}

fn node(handle: u64, pool: Pool) -> Node {
    Node {
        handle,
        pool,
        bytes: BYTES,
        surface_type: 6,
    }
}

/// A locked node of this process.
struct Held {
    node: Node,
    location: Location,
    memory: Memory,
}

impl Held {
    fn lock(client: &Client, node: Node) -> Result<Self> {
        let location = client.device().lock(node)?;
        let memory = client.device().memory(node, location, client.pool())?;
        Ok(Self {
            node,
            location,
            memory,
        })
    }

    fn new(client: &Client, pool: Pool) -> Result<Self> {
        Self::lock(client, client.device().allocate(BYTES, 64, 6, pool)?)
    }

    /// Unlocks and frees it, and waits until the GPU has finished with it.
    fn end(self, client: &Client) -> Result<()> {
        video::unlock(client.device(), self.node)?;
        client.device().free(self.node)?;
        Ok(client.finish()?)
    }

    fn draw(&self, client: &mut Client, colour: u32) -> Result<()> {
        let block = self.memory.part(0, BLOCK).context("part")?;
        gpu_fill(client, &surface_at(self.location.address, block)?, colour)
    }
}

fn name(client: &Client, node: Node) -> Result<u64> {
    let (status, name) = client.device().name_node(node.handle)?;
    same("NAME", status, Status::OK)?;
    ensure!((1..1 << 31).contains(&name), "the name is {name:#x}");
    Ok(name)
}

fn import(client: &Client, name: u64, pool: Pool) -> Result<Node> {
    let (status, handle) = client.device().import_node(name)?;
    same("IMPORT", status, Status::OK)?;
    Ok(node(handle, pool))
}

fn unknown(client: &Client, name: u64) -> Result<()> {
    let (status, _) = client.device().import_node(name)?;
    same("IMPORT of what is not there", status, Status::NOT_FOUND)
}

/// Runs in the other process.
fn be_other(abi: &'static Abi) -> Result<()> {
    let mut client = client(abi)?;
    let mut held: Option<Held> = None;
    other::serve(|words| {
        let value =
            |index: usize| -> Result<u64> { Ok(words.get(index).context("word")?.parse()?) };
        let number = match words[0] {
            // Allocates and names a node of its own.
            "offer" => {
                let new = Held::new(&client, Pool(value(1)? as u32))?;
                new.memory.fill(WRITTEN);
                let name = name(&client, new.node)?;
                held = Some(new);
                name
            }
            "import" => {
                let node = import(&client, value(1)?, Pool(value(2)? as u32))?;
                let new = Held::lock(&client, node)?;
                let address = new.location.address;
                held = Some(new);
                address.into()
            }
            "name" => name(&client, held.as_ref().context("no node")?.node)?,
            "read" => {
                let memory = &held.as_ref().context("no node")?.memory;
                let value = memory.read(0);
                expect_all("all of it", memory, value)?;
                value.into()
            }
            "write" => {
                held.as_ref().context("no node")?.memory.fill(WRITTEN);
                0
            }
            "draw" => {
                let held = held.take().context("no node")?;
                held.draw(&mut client, DRAWN)?;
                held.end(&client)?;
                0
            }
            "end" => {
                held.take().context("no node")?.end(&client)?;
                0
            }
            word => bail!("what is {word}?"),
        };
        Ok(number.to_string())
    })
}

fn used() -> Result<([u64; 3], u64)> {
    Ok((ProcGc::used_now()?, ProcGc::mmu_used_now()?))
}

fn ask(other: &mut Other, what: &str, wanted: impl Into<u64>) -> Result<()> {
    same(what, other.ask(what)?, wanted.into().to_string())
}

/// A node of this process is used by the other process, and then again here.
fn there_and_back(abi: &'static Abi, pool: Pool) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let mut other = Other::start(abi)?;
    let held = Held::new(&client, pool)?;
    held.memory.fill(0xaaaa_aaaa);
    let number = name(&client, held.node)?;
    same("the name again", name(&client, held.node)?, number)?;
    let import = format!("import {number} {}", pool.0);
    ask(&mut other, &import, held.location.address)?;
    ask(&mut other, "read", 0xaaaa_aaaau32)?;
    ask(&mut other, "name", number)?;
    ask(&mut other, "write", 0u32)?;
    expect_all("written by the other", &held.memory, WRITTEN)?;
    // The other process's GPU draws it. Then its handle there is freed, but not the node.
    ask(&mut other, "draw", 0u32)?;
    let block = held.memory.part(0, BLOCK).context("part")?;
    expect_all("drawn by the other", &block, DRAWN)?;
    // The same again.
    ask(&mut other, &import, held.location.address)?;
    ask(&mut other, "end", 0u32)?;
    expect_all("still there", &block, DRAWN)?;
    held.end(&client)?;
    unknown(&client, number)?;
    drop(other);
    settles("KiB, MMU entries", before, used)
}

/// The other process's node outlives that process, and outlives its handle here.
fn outlives_its_owner(abi: &'static Abi, pool: Pool, killed: bool) -> Result<()> {
    let mut client = client(abi)?;
    let before = at_rest(used)?;
    let mut other = Other::start(abi)?;
    let number = other.ask(&format!("offer {}", pool.0))?.parse()?;
    let held = Held::lock(&client, import(&client, number, pool)?)?;
    if !killed {
        ask(&mut other, "end", 0u32)?;
    }
    other.kill()?;
    client.finish()?;
    expect_all("after its owner's end", &held.memory, WRITTEN)?;
    let next = Held::new(&client, pool)?;
    let (first, last) = (held.location.address, next.location.address);
    ensure!(first != last, "its place was given away");
    next.memory.fill(7);
    held.draw(&mut client, 0x1357_9bdf)?;
    let block = held.memory.part(0, BLOCK).context("part")?;
    expect_all("drawn", &block, 0x1357_9bdf)?;
    expect_all("the next one", &next.memory, 7)?;
    next.end(&client)?;
    // A third process imports it from this one.
    let mut third = Other::start(abi)?;
    ask(&mut third, &format!("import {number} {}", pool.0), first)?;
    held.end(&client)?;
    ask(&mut third, "write", 0u32)?;
    ask(&mut third, "end", 0u32)?;
    unknown(&client, number)?;
    drop(third);
    settles("KiB, MMU entries", before, used)
}

/// Import of a process's own node returns the same node, which then needs one more FREE per import.
fn own_name(abi: &'static Abi, pool: Pool) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    let device = client.device();
    let held = Held::new(&client, pool)?;
    held.memory.fill(0x600d_f00d);
    let number = name(&client, held.node)?;
    for _ in 0..3 {
        same(
            "handle",
            import(&client, number, pool)?.handle,
            held.node.handle,
        )?;
    }
    for _ in 0..3 {
        device.free(held.node)?;
        expect_all("freed as often as imported", &held.memory, 0x600d_f00d)?;
    }
    held.end(&client)?;
    unknown(&client, number)?;
    settles("KiB, MMU entries", before, used)
}

/// Data that other processes leave in a node must not be visible to its earlier owner.
fn left_behind(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let mut other = Other::start(abi)?;
    let held = Held::new(&client, Pool::SYSTEM)?;
    let (number, address) = (name(&client, held.node)?, held.location.address);
    ask(
        &mut other,
        &format!("import {number} {}", Pool::SYSTEM.0),
        address,
    )?;
    held.end(&client)?;
    ask(&mut other, "write", 0u32)?;
    ask(&mut other, "end", 0u32)?;
    for _ in 0..4 {
        let next = Held::new(&client, Pool::SYSTEM)?;
        expect_all("fresh memory", &next.memory, 0)?;
        let is_it = next.location.address == address;
        next.end(&client)?;
        if is_it {
            return Ok(());
        }
    }
    bail!("its place did not come back");
}

fn refusals(abi: &'static Abi) -> Result<()> {
    let client = client(abi)?;
    let device = client.device();
    for handle in [0, 1 << 20, u64::from(u32::MAX)] {
        let (status, _) = device.name_node(handle)?;
        same("NAME of no node", status, Status::NOT_FOUND)?;
    }
    let held = Held::new(&client, Pool::SYSTEM)?;
    let number = name(&client, held.node)?;
    for wrong in [0, 1, number ^ 1, number | 1 << 31, u64::from(u32::MAX)] {
        if wrong != number {
            unknown(&client, wrong)?;
        }
    }
    let other = Held::new(&client, Pool::SYSTEM)?;
    ensure!(
        name(&client, other.node)? != number,
        "two nodes of one name"
    );
    other.end(&client)?;
    // Freed but still locked: the handle cannot be named any more.
    device.free(held.node)?;
    let (status, _) = device.name_node(held.node.handle)?;
    same("NAME of a freed node", status, Status::NOT_FOUND)?;
    video::unlock(device, held.node)?;
    client.finish()?;
    unknown(&client, number)
}

/// Names come and go, and importing processes are killed.
fn many(abi: &'static Abi, count: u32) -> Result<()> {
    let client = client(abi)?;
    let before = at_rest(used)?;
    for round in 0..count {
        let pool = POOLS[round as usize % POOLS.len()];
        let held = Held::new(&client, pool)?;
        let number = name(&client, held.node)?;
        let mut others = [Other::start(abi)?, Other::start(abi)?];
        for other in &mut others {
            let what = format!("import {number} {}", pool.0);
            ask(other, &what, held.location.address)?;
        }
        let [first, mut second] = others;
        if round % 2 == 0 {
            held.end(&client)?;
            first.kill()?;
            second.kill()?;
        } else {
            ask(&mut second, "end", 0u32)?;
            first.kill()?;
            second.kill()?;
            held.end(&client)?;
        }
    }
    settles("KiB, MMU entries", before, used)
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        let mut suite = Suite::new();
        let named = Abi::familiar()
            .into_iter()
            .filter(|abi| abi.has("NAME_VIDEO_MEMORY"));
        for abi in named {
            let what = abi.name;
            suite.test(format!("{what}: refusals"), move || refusals(abi));
            for pool in POOLS {
                // The newest generation has no pool 9. For the generations between, one is tested.
                let wanted = match what {
                    "5.0.11.p8" => true,
                    "6.4.11" => pool != Pool::CONTIGUOUS,
                    _ => pool == Pool::SYSTEM,
                };
                if !wanted {
                    continue;
                }
                suite.test(format!("{what}, {pool}: there and back"), move || {
                    there_and_back(abi, pool)
                });
            }
        }
        let abi = Abi::named("5.0.11.p8").context("a generation")?;
        for pool in POOLS {
            suite.test(format!("{pool}: outlives its owner's handle"), move || {
                outlives_its_owner(abi, pool, false)
            });
            suite.test(format!("{pool}: outlives its owner"), move || {
                outlives_its_owner(abi, pool, true)
            });
            suite.test(format!("{pool}: one's own"), move || own_name(abi, pool));
        }
        suite.test("what others left is not shown", move || left_behind(abi));
        suite.test("names come and go", move || many(abi, 12));
        suite.run()
    })
}
