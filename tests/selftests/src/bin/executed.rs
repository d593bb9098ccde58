// SPDX-License-Identifier: GPL-2.0-only
//! With MMU version 2, no engine can write memory that the GPU executes: not by a draw that runs past the client's
//! memory into a copy of a context, and not at any other address in the page tables.

use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::device::Location;
use galcore_client::draw::Engine;
use galcore_client::stream::Pipe;
use galcore_client::uapi::Pool;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_client::Surface;
use galcore_selftests::control::Control;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::states::Scratch;
use galcore_selftests::system;
use galcore_selftests::video::locked_surface;
use galcore_selftests::video::node;
use galcore_selftests::video::unlock;
use gpu_control::Board;
use gpu_control::STATE_INDEX;
use gpu_control::STATE_VALUE;

const PAGE: u32 = 4096;

/// Bytes of each of the client's buffers: more than a page, so that they are in the same area as contexts.
const OWN: u32 = 2 * PAGE;

/// Opcodes.
const LINK: u32 = 0x4000_0000;
const OPCODE: u32 = 0xf800_0000;

/// A state that nothing else loads, and the value that the attack loads.
const MARK: u32 = 0x0ef0;
const MARKED: u32 = 0x5eed_600d;

/// Bytes of a row of 16 pixels.
const ROW: u32 = 64;
/// The largest stride of the resolve engine's targets.
const WIDEST: u32 = 0x3_ff00;

/// A client with a second context, and the GPU's control BAR.
struct Bench {
    client: Client,
    control: Control,
    contexts: [u32; 2],
    /// Allocated before the second context, so that its copies are after some of these buffers.
    pages: Vec<Buffer>,
    commands: Buffer,
    dump: Buffer,
}

impl Bench {
    fn new() -> Result<Self> {
        let client = Client::start()?;
        // A core that powers off reloads its context at a time that the test does not expect.
        system::stay_awake()?;
        let device = client.device();
        let pages = (0..16)
            .map(|_| device.allocate_contiguous(u64::from(OWN)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            pages,
            control: Control::open()?,
            contexts: [client.context(), device.attach()?.context],
            commands: device.allocate_contiguous(0x1000)?,
            dump: device.allocate_contiguous(gpu_control::FETCH_DUMP_BYTES as u64)?,
            client,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    fn commit(&self, context: u32, stream: &Stream) -> Result<()> {
        let record = place(&self.commands, 0, Pipe::Pipe3d, stream);
        self.device().commit(&record, context, &mut Queue::new())?;
        Ok(self.device().stall()?)
    }

    /// Loads both copies of both contexts.
    fn load_all(&self) -> Result<()> {
        let nothing = Stream::default();
        for context in [self.contexts, self.contexts].concat() {
            self.commit(context, Stream::new().append(&nothing).nop())?;
        }
        Ok(())
    }

    /// The units that the front end has fetched since the last call: address and words.
    fn fetched(&self) -> Vec<(u32, [u32; 2])> {
        self.dump.memory.fill(0);
        let base = self.client.base_address();
        self.control
            .write(gpu_control::FETCH_DUMP, self.dump.address + base);
        let word = |index: usize, part: usize| self.dump.memory.read(index * 16 + part * 4);
        (0..gpu_control::FETCH_DUMP_UNITS)
            .take_while(|&index| word(index, 3) != 0)
            .map(|index| (word(index, 0), [word(index, 1), word(index, 2)]))
            .collect()
    }

    /// The copies of contexts that the GPU loads: the address of the first unit, and the end of the last. A copy is the
    /// target of a LINK, and returns with a LINK.
    fn copies(&self) -> Result<Vec<(u32, u32)>> {
        self.fetched();
        self.load_all()?;
        let units = self.fetched();
        let mut copies = Vec::new();
        for (at, (address, [word, target])) in units.iter().enumerate() {
            let back = units[at..].iter().find(|(from, [word, to])| {
                word & OPCODE == LINK && *to == address + 8 && from.abs_diff(*target) < 0x1_0000
            });
            if let (LINK, Some((end, _))) = (word & OPCODE, back) {
                copies.push((*target, end + 8));
            }
        }
        copies.sort_unstable();
        copies.dedup();
        ensure!(copies.len() >= 2, "{} copies in {units:x?}", copies.len());
        Ok(copies)
    }

    /// A buffer and the nearest copy after it.
    fn neighbours(&self) -> Result<(&Buffer, (u32, u32))> {
        let copies = self.copies()?;
        let pairs = self.pages.iter().flat_map(|own| {
            let distance = move |copy: u32| (copy & !(PAGE - 1)).wrapping_sub(own.address + OWN);
            copies
                .iter()
                .map(move |&copy| (distance(copy.0), own, copy))
        });
        let nearest = pairs.min_by_key(|(distance, ..)| *distance);
        let (distance, own, copy) = nearest.context("no copies")?;
        println!("# {distance:#x} bytes between the client's memory and the copy");
        ensure!(distance < WIDEST - ROW, "they are too far from each other");
        Ok((own, copy))
    }
}

/// The attack: a draw whose first rows are in the process's own memory, and whose later rows are in a context's copy.
/// There each unit becomes a LINK to unchecked commands.
fn overrun(bench: &Bench) -> Result<()> {
    let (own, (copy, end)) = bench.neighbours()?;
    let (first, second) = (copy & !(PAGE - 1), own.address + OWN - ROW);
    let payload = bench.device().allocate_contiguous(u64::from(PAGE))?;
    let rest = first + ROW;
    let words = [
        0x0801_0000 | (MARK / 4),
        MARKED,
        LINK | (end - rest).div_ceil(8),
        rest,
    ];
    for (index, word) in words.into_iter().enumerate() {
        payload.memory.write(4 * index, word);
    }
    let (_, source) = locked_surface(&bench.client, 8 * ROW, Pool::SYSTEM, false)?;
    for offset in (0..8 * ROW as usize).step_by(8) {
        source.memory.write(offset, LINK | 2);
        source.memory.write(offset + 4, payload.address);
    }
    let target = Surface {
        node: node(0),
        location: Location {
            address: second,
            logical: 0,
        },
        memory: own.memory.clone(),
        width: 16,
        height: 8,
        stride: first - second,
    };
    let engine = Engine::of(bench.client.identity());
    let (rows, mut stream) = (Rect::new(0, 0, 16, 8), Stream::new());
    engine.copy_all(&mut stream, &source, (0, 0), &target, &[rows], rows);
    stream.flush(Pipe::Pipe3d);
    let control = &bench.control;
    let met = control.exceptions(|| {
        bench.commit(bench.contexts[0], &stream)?;
        bench.load_all()
    })?;
    // The draw wrote the client's own memory.
    let at = (OWN - ROW) as usize;
    same("its own memory", own.memory.read(at), LINK | 2)?;
    control.write(STATE_INDEX, MARK / 4);
    let mark = control.read(STATE_VALUE);
    ensure!(mark != MARKED, "the process's own words were executed");
    ensure!(met > 0, "the MMU let all rows through");
    same("violations", control.violations(), 0)
}

/// Every page that the process's tables let engines write is its own or scratch memory. None belongs to another
/// process, or to the parts of the pool where the process has no memory.
fn walk(bench: &Bench, core: &Control, has_run: bool) -> Result<()> {
    // Another client of the same process.
    let other = Client::start()?;
    let device = bench.device();
    let list = device.allocate_contiguous(gpu_control::WRITEABLE_DUMP_BYTES as u64)?;
    let (scattered, behind) = locked_surface(&bench.client, 8 * PAGE, Pool::VIRTUAL, false)?;
    let (pool, pooled) = locked_surface(&bench.client, PAGE, Pool::SYSTEM, false)?;
    // The dump lists only the first of all addresses of one page. Each pipe of each core has such pages.
    let [scratch, next] = Scratch::read()?.addresses;
    let own = [&bench.commands, &bench.dump, &list];
    let own: Vec<_> = own.into_iter().chain(&bench.pages).collect();
    let is_clients = |address: u32| {
        own.iter().any(|buffer| buffer.has(address))
            || [&bench.client, &other]
                .iter()
                .any(|client| client.has_command_memory(address))
            || address >= scratch && (address - scratch) % (next - scratch) == 0
            || address.wrapping_sub(behind.location.address) < 8 * PAGE
            || address.wrapping_sub(pooled.location.address) < PAGE
    };
    // The TLB flush for freed memory loads tables that belong to no process.
    harness::at_rest(|| Ok(()))?;
    system::awake(|| -> Result<()> {
        bench.load_all()?;
        core.write(
            gpu_control::WRITEABLE_DUMP,
            list.address + bench.client.base_address(),
        );
        Ok(())
    })??;
    let word = |index: usize, part: usize| list.memory.read(index * 16 + part * 4);
    let (mut pages, mut foreign) = (0, Vec::new());
    for index in 0..gpu_control::WRITEABLE_DUMP_RANGES {
        let [address, physical, bytes, is_there] = [0, 1, 2, 3].map(|part| word(index, part));
        if is_there == 0 {
            break;
        }
        for offset in (0..bytes).step_by(PAGE as usize) {
            pages += 1;
            if !is_clients(address + offset) {
                foreign.push((address + offset, physical + offset));
            }
        }
    }
    println!("# {pages} pages can be written");
    // The tables of the last job are loaded, with at least the pages that this test allocates. A core that has run no
    // job has tables that belong to no process.
    let least = if has_run {
        2 * bench.pages.len() + 8 + 1
    } else {
        1
    };
    ensure!(pages >= least, "{pages} pages");
    ensure!(
        foreign.is_empty(),
        "{} pages that are no client's can be written: {:x?}",
        foreign.len(),
        &foreign[..foreign.len().min(8)]
    );
    for node in [scattered, pool] {
        unlock(device, node)?;
        device.free(node)?;
    }
    Ok(device.free_contiguous(&list)?)
}

fn main() -> ExitCode {
    harness::program(|| {
        let bench = &Bench::new()?;
        // Without the core for vector graphics, which has its own tables.
        let cores: &Vec<_> = &(0..2)
            .map_while(|number| Control::open_core(number).ok())
            .filter(|core| {
                matches!(
                    core.board(),
                    Some(
                        Board::Gc3000
                            | Board::Gc320Qp
                            | Board::Gc520l
                            | Board::Npu
                            | Board::Gc7000ul
                    )
                )
            })
            .collect();
        let mut suite = Suite::new();
        for (number, core) in cores.iter().enumerate() {
            let name = core.board().map_or("", Board::name);
            suite.test(
                format!("{name}: what can be written is clients'"),
                move || walk(bench, core, number == 0),
            );
        }
        suite.test(
            "a draw that runs past the client's memory writes no command",
            || overrun(bench),
        );
        suite.test("no violation that was not asked for", move || {
            ensure!(!cores.is_empty(), "no core with MMU version 2");
            let all = cores.iter().map(Control::violations).sum();
            same("violations", all, 0)
        });
        suite.run().context("executed")
    })
}
