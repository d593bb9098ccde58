// SPDX-License-Identifier: GPL-2.0-only
//! COMMIT with every kind of error: it returns a status, nothing runs, and the next commit succeeds.
//!
//! "Nothing runs" is checked in the GPU: its counters of draws and the pixels do not change.

use std::cell::RefCell;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use galcore_client::client::place;
use galcore_client::device::Buffer;
use galcore_client::state;
use galcore_client::stream::Pipe;
use galcore_client::uapi;
use galcore_client::uapi::Command;
use galcore_client::uapi::CommandBufferRecord;
use galcore_client::uapi::Interface;
use galcore_client::uapi::Status;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_client::Stream;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::has_2d;
use galcore_selftests::fixture::has_3d;
use galcore_selftests::fixture::Paint;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Suite;

/// The colour of draws that must not run.
const FORBIDDEN: u32 = 0xffba_dbad;

/// A command buffer, and what is needed to check that it did not run.
struct Bench {
    paint: RefCell<Paint>,
    control: Control,
    buffer: Buffer,
    /// Set by a queue that must not run.
    signal: i32,
}

impl Bench {
    fn new() -> Result<Self> {
        let paint = Paint::new()?;
        let buffer = paint.device().allocate_contiguous(0x8000)?;
        let signal = paint.device().create_signal(false)?;
        Ok(Self {
            paint: RefCell::new(paint),
            control: Control::open()?,
            buffer,
            signal,
        })
    }

    fn pipe(&self) -> Pipe {
        self.paint.borrow().engine().pipe()
    }

    /// A stream that draws the forbidden colour.
    fn stream(&self) -> Stream {
        self.paint.borrow().fill_all(FORBIDDEN)
    }

    /// A stream with `words` after a draw: no part of it may run.
    fn behind_draw(&self, words: &[u32]) -> Stream {
        let mut stream = self.stream();
        stream.raw(words);
        stream
    }

    /// A record for a valid stream in the command buffer.
    fn record(&self, stream: &Stream) -> CommandBufferRecord {
        place(&self.buffer, 0, self.pipe(), stream)
    }

    /// Calls `send` and checks its status, that nothing ran, and that a valid commit still works.
    fn refuse(
        &self,
        what: &str,
        wanted: Status,
        send: impl FnOnce(&Device, &mut Queue) -> Result<Status>,
    ) -> Result<()> {
        let mut paint = self.paint.borrow_mut();
        paint.prove(0xff00_ff00)?;
        let before = self.control.counters();
        let mut queue = Queue::new();
        queue.signal(self.signal);
        let status = send(paint.device(), &mut queue)?;
        same(what, status, wanted)?;
        paint.device().stall()?;
        let after = self.control.counters();
        same(&format!("{what}: draws"), after.draws() - before.draws(), 0)?;
        same(&format!("{what}: resets"), after.resets, before.resets)?;
        let signalled = paint.device().wait_signal(self.signal, 0);
        refused(&format!("{what}: its queue"), signalled, Status::TIMEOUT)?;
        paint
            .expect(|_, _| 0xff00_ff00)
            .with_context(|| what.to_string())?;
        paint
            .prove(0xff00_00ff)
            .with_context(|| format!("the commit after {what}"))
    }

    /// Checks that a changed record is refused.
    fn refuse_record(
        &self,
        what: &str,
        wanted: Status,
        change: impl FnOnce(&mut CommandBufferRecord),
    ) -> Result<()> {
        let mut record = self.record(&self.stream());
        change(&mut record);
        self.refuse(what, wanted, |device, queue| {
            Ok(device.send_commit(&record, 0, queue)?)
        })
    }

    /// Checks that `words` after a draw are refused.
    fn refuse_words(&self, what: &str, words: &[u32]) -> Result<()> {
        let record = self.record(&self.behind_draw(words));
        self.refuse(what, Status::INVALID_DATA, |device, queue| {
            Ok(device.send_commit(&record, 0, queue)?)
        })
    }

    /// Checks that `words` before a draw are accepted.
    fn accept_words(&self, what: &str, words: &[u32]) -> Result<()> {
        let mut stream = Stream::new();
        stream.raw(words);
        stream.append(&self.paint.borrow().fill_all(0xff77_7777));
        let mut paint = self.paint.borrow_mut();
        paint.prove(0xff11_1111)?;
        paint.run(&stream).with_context(|| what.to_string())?;
        paint
            .expect(|_, _| 0xff77_7777)
            .with_context(|| what.to_string())
    }
}

fn record_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("no command buffer, or one that cannot be read", move || {
        for (address, wanted) in [
            (0, Status::INVALID_ARGUMENT),
            (0x10, Status::OUT_OF_RESOURCES),
            (0xffff_f000, Status::OUT_OF_RESOURCES),
            (0xc000_0000, Status::OUT_OF_RESOURCES),
            (0x7fff_ffff_ffff_f000, Status::OUT_OF_RESOURCES),
        ] {
            bench.refuse(
                &format!("command buffer at {address:#x}"),
                wanted,
                |device, queue| {
                    let commit = uapi::Commit {
                        command_buffer: address,
                        queue: queue.head(),
                        ..Default::default()
                    };
                    Ok(device.send(Command::COMMIT, &commit)?.0)
                },
            )?;
        }
        Ok(())
    });
    suite.test("an object that is no command buffer", move || {
        for object in [0, 1, 0x5458_5443, u32::MAX] {
            let what = format!("object {object:#x}");
            bench.refuse_record(&what, Status::INVALID_OBJECT, |record| {
                record.object = object
            })?;
        }
        Ok(())
    });
    suite.test("memory that is no buffer of the caller", move || {
        let stack = 0u64;
        let own = &raw const stack as usize as u64 & !4095;
        let pool = bench.paint.borrow().client.pool().clone();
        for (what, logical) in [
            ("address 0", 0),
            ("an unmapped address", 0x1000),
            ("the stack", own),
            ("a kernel address", 0xc000_8000),
            (
                "the pool where no node is",
                pool.address() + pool.len() as u64 - 0x1_0000,
            ),
        ] {
            bench.refuse_record(what, Status::INVALID_ADDRESS, |record| {
                record.logical = logical
            })?;
        }
        Ok(())
    });
    suite.test(
        "of an address in 64 bits a 32-bit program means the low half",
        move || {
            for (high, color) in [(u64::from(u32::MAX), 0xff01_0203), (1, 0xff04_0506)] {
                let stream = bench.paint.borrow().fill_all(color);
                let mut record = bench.record(&stream);
                record.logical |= high << 32;
                let paint = bench.paint.borrow();
                let status = paint.device().send_commit(&record, 0, &mut Queue::new())?;
                same("COMMIT", status, Status::OK)?;
                paint.device().stall()?;
                paint.expect(|_, _| color)?;
            }
            Ok(())
        },
    );
    suite.test("a buffer that was freed", move || {
        let stream = bench.stream();
        let record = {
            let paint = bench.paint.borrow();
            let buffer = paint.device().allocate_contiguous(0x8000)?;
            let record = place(&buffer, 0, bench.pipe(), &stream);
            paint.device().free_contiguous(&buffer)?;
            record
        };
        bench.refuse(
            "a freed buffer",
            Status::INVALID_ADDRESS,
            |device, queue| Ok(device.send_commit(&record, 0, queue)?),
        )
    });
    suite.test(
        "offsets that are misaligned, crossed, beyond the end, or wrap",
        move || {
            type Change = fn(&mut CommandBufferRecord);
            let cases: [(&str, Change); 14] = [
                ("startOffset 4", |record| record.start_offset = 4),
                ("startOffset 1", |record| record.start_offset = 1),
                ("offset + 4", |record| record.offset += 4),
                ("offset + 1", |record| record.offset += 1),
                ("offset below the head", |record| record.offset = 24),
                ("offset 0", |record| record.offset = 0),
                ("startOffset behind offset", |record| {
                    record.start_offset = record.offset
                }),
                ("no room for the tail", |record| record.offset = 0x8000),
                ("offset beyond the end", |record| record.offset = 0x8008),
                ("offset far beyond the end", |record| {
                    record.offset = 0x10_0000
                }),
                ("offset at the end of 32 bits", |record| {
                    record.offset = 0xffff_fff8
                }),
                ("startOffset that wraps", |record| {
                    record.start_offset = 0xffff_ffe0
                }),
                ("both that wrap", |record| {
                    record.start_offset = 0xffff_ffd8;
                    record.offset = 0xffff_fff8;
                }),
                ("bytes that lie", |record| {
                    record.bytes = u32::MAX;
                    record.offset = 0x10_0000;
                }),
            ];
            for (what, change) in cases {
                bench.refuse_record(what, Status::INVALID_ARGUMENT, change)?;
            }
            Ok(())
        },
    );
    suite.test("pipes that do not exist", move || {
        for pipe in [-1, 2, 3, 0x7fff_ffff, i32::MIN] {
            let what = format!("entryPipe {pipe}");
            bench.refuse_record(&what, Status::INVALID_ARGUMENT, |record| {
                record.entry_pipe = pipe
            })?;
        }
        Ok(())
    });
    suite.test("the pipe of an engine that the core lacks", move || {
        let identity = *bench.paint.borrow().client.identity();
        let missing = match (has_2d(&identity), has_3d(&identity)) {
            (true, true) => return skip("this core has both"),
            (true, false) => Pipe::Pipe3d,
            _ => Pipe::Pipe2d,
        };
        // Clients leave the field at 0. The core then starts in the engine that it has.
        let stream = bench.paint.borrow().fill_all(0xff0a_0b0d);
        let record = place(&bench.buffer, 0, missing, &stream);
        {
            let paint = bench.paint.borrow();
            let status = paint.device().send_commit(&record, 0, &mut Queue::new())?;
            same("entryPipe of a missing engine", status, Status::OK)?;
            paint.device().stall()?;
            paint.expect(|_, _| 0xff0a_0b0d)?;
        }
        bench.refuse_words(
            "PIPE_SELECT of a missing engine",
            &[
                0x0801_0e02,
                state::TOKEN_FE_PE,
                0x4800_0000,
                state::TOKEN_FE_PE,
                0x0801_0e00,
                missing.number() as u32,
            ],
        )
    });
    suite.test("contexts: none, an attached one, unknown ones", move || {
        let attached = bench.paint.borrow().device().attach()?;
        harness::same("a context has states", attached.state_count > 0, true)?;
        let draw = |what: &str, context: u32, colour: u32| -> Result<()> {
            let stream = bench.paint.borrow().fill_all(colour);
            let record = bench.record(&stream);
            let paint = bench.paint.borrow();
            let status = paint
                .device()
                .send_commit(&record, context, &mut Queue::new())?;
            same(what, status, Status::OK)?;
            paint.device().stall()?;
            paint.expect(|_, _| colour)
        };
        // An unknown context counts as none.
        for (at, context) in [0, attached.context, 0x7fff_ff00, u32::MAX]
            .into_iter()
            .enumerate()
        {
            draw(
                &format!("context {context}"),
                context,
                0xff0a_0b00 + at as u32,
            )?;
        }
        let gone = attached.context;
        bench.paint.borrow().device().detach(gone)?;
        bench
            .paint
            .borrow()
            .device()
            .detach(gone)
            .context("again")?;
        draw("a detached context", gone, 0xff0a_0c00)?;
        let foreign = Foreign::start()?;
        draw("another process's context", foreign.context(), 0xff0a_0c01)?;
        let paint = bench.paint.borrow();
        for context in [0, 0x7fff_ff00, foreign.context()] {
            paint.device().detach(context).context("DETACH of none")?;
        }
        Ok(())
    });
    suite.test("a bad queue: refused before anything runs", move || {
        let record = bench.record(&bench.stream());
        for (what, wanted, ending, extra) in [
            (
                "WRITE_DATA to address 0",
                Status::INVALID_ADDRESS,
                0,
                Some(Interface::new(Command::WRITE_DATA)),
            ),
            ("unreadable record", Status::OUT_OF_RESOURCES, 0x10, None),
        ] {
            bench.refuse(what, wanted, |device, queue| {
                if let Some(extra) = &extra {
                    queue.push(extra);
                }
                queue.set_ending(ending);
                Ok(device.send_commit(&record, 0, queue)?)
            })?;
        }
        bench.refuse("cyclic queue", Status::INVALID_DATA, |device, queue| {
            let back = queue.address(0);
            queue.set_ending(back);
            Ok(device.send_commit(&record, 0, queue)?)
        })
    });
}

/// A LOAD_STATE of one state.
fn load(address: u32) -> [u32; 2] {
    [0x0801_0000 | (address / 4), 0]
}

fn stream_tests<'a>(suite: &mut Suite<'a>, bench: &'a Bench) {
    suite.test("opcodes that clients may not use", move || {
        for (name, words) in [
            ("END", [0x1000_0000, 0, 0, 0]),
            ("END with event", [0x1000_0101, 0, 0, 0]),
            ("WAIT", [0x3800_00c8, 0, 0, 0]),
            ("LINK", [0x4000_0002, 0x5800_0000, 0, 0]),
            ("CALL", [0x5000_0002, 0x5800_0000, 2, 0x5800_0000]),
            ("RETURN", [0x5800_0000, 0, 0, 0]),
            ("CHIP_SELECT", [0x6800_0001, 0, 0, 0]),
            ("WAIT_FENCE", [0x7800_0001, 0x5800_0000, 0, 0]),
            ("DRAW_INDIRECT", [0x8000_0001, 0x5800_0000, 0, 0]),
            ("SNAP_PAGES", [0x9800_0000, 0, 0, 0]),
        ] {
            bench.refuse_words(name, &words)?;
        }
        Ok(())
    });
    suite.test("opcodes that do not exist", move || {
        let known = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 19];
        for opcode in (0..32).filter(|opcode| !known.contains(opcode)) {
            bench.refuse_words(&format!("opcode {opcode}"), &[opcode << 27, 0])?;
        }
        bench.refuse_words("all ones", &[u32::MAX; 2])
    });
    suite.test("commands that reach past the end", move || {
        for (name, words) in [
            ("LOAD_STATE of 2", vec![0x0802_0480, 0]),
            ("LOAD_STATE of 4", vec![0x0804_0480, 0, 0, 0]),
            ("LOAD_STATE of 1023", vec![0x0bff_0480, 0]),
            ("LOAD_STATE of 1024", vec![0x0800_0480, 0]),
        ] {
            bench.refuse_words(name, &words)?;
        }
        if bench.pipe() == Pipe::Pipe2d {
            bench.refuse_words("DRAW_2D without its rectangle", &[0x2000_0100, 0])?;
            bench.refuse_words("DRAW_2D of 256 with one", &[0x2000_0000, 0, 0, 0])?;
            bench.refuse_words("DRAW_2D without its data", &[0x2040_0100, 0, 0, 0])?;
        } else {
            bench.refuse_words("DRAW_PRIMITIVES without its end", &[0x2800_0000, 4])?;
            bench.refuse_words("DRAW_INDEXED without its end", &[0x3000_0000, 4, 0, 1])?;
        }
        Ok(())
    });
    suite.test("states that belong to the driver", move || {
        for address in [
            state::EVENT,
            state::FLUSH_MMU,
            0x008,
            0x010,
            0x014,
            0x180,
            0x184,
            0x18c,
            0x400,
            0x414,
            0x41c,
            0x428,
            0x5fc,
            0x654,
            0x658,
            0x65c,
            0x66c,
        ] {
            bench.refuse_words(&format!("state {address:#x}"), &load(address))?;
        }
        Ok(())
    });
    suite.test(
        "loads of several states that touch one of the driver's",
        move || {
            let several = |count: u32, address: u32| -> Vec<u32> {
                let mut words = vec![0x0800_0000 | count << 16 | (address / 4)];
                words.resize((count as usize + 2) & !1, 0);
                words
            };
            for (count, address) in [
                (3, 0x000),
                (3, 0x004),
                (2, 0x5f8),
                (3, 0x3800),
                (2, 0x3804),
                (2, 0x380c),
                (2, 0x650),
                (8, 0x640),
                (1023, 0x3000),
            ] {
                bench.refuse_words(
                    &format!("{count} states from {address:#x}"),
                    &several(count, address),
                )?;
            }
            let fixed = [0x0c01_0000 | (state::EVENT / 4), 0];
            bench.refuse_words("EVENT as a fixed point number", &fixed)
        },
    );
    suite.test("draws in the wrong pipe", move || {
        if bench.pipe() == Pipe::Pipe3d {
            return bench.refuse_words("DRAW_2D in the 3D pipe", &[0x2000_0100, 0, 0, 0x0001_0001]);
        }
        bench.refuse_words("DRAW_PRIMITIVES in the 2D pipe", &[0x2800_0000, 4, 0, 1])?;
        bench.refuse_words("DRAW_INDEXED in the 2D pipe", &[0x3000_0000, 4, 0, 1, 0, 0])?;
        bench.refuse_words(
            "resolve in the 2D pipe",
            &[0x0801_0000 | (state::RS_KICKER / 4), state::RS_KICK],
        )
    });
    suite.test("draws in the wrong pipe after PIPE_SELECT", move || {
        let identity = *bench.paint.borrow().client.identity();
        if !(has_2d(&identity) && has_3d(&identity)) {
            return skip("this core has one engine");
        }
        let mut words = Stream::new();
        words.select_pipe(Pipe::Pipe2d, Pipe::Pipe3d);
        words.raw(&[0x2000_0100, 0, 0, 0x0001_0001]);
        bench.refuse_words("DRAW_2D", words.words())?;
        // Also in a buffer that begins in the 3D pipe.
        let mut stream = Stream::new();
        stream.raw(&[0x2000_0100, 0, 0, 0x0001_0001]);
        let record = place(&bench.buffer, 0, Pipe::Pipe3d, &stream);
        bench.refuse(
            "DRAW_2D in a 3D buffer",
            Status::INVALID_DATA,
            |device, queue| Ok(device.send_commit(&record, 0, queue)?),
        )
    });
    suite.test(
        "stalls on a token that this buffer has not armed",
        move || {
            bench.refuse_words("STALL unarmed", &[0x4800_0000, state::TOKEN_FE_PE])?;
            let other = [0x0801_0e02, 0x501, 0x4800_0000, state::TOKEN_FE_PE];
            bench.refuse_words("STALL on another token", &other)
        },
    );
    suite.test("a semaphore that is armed already", move || {
        let arm = [0x0801_0e02, state::TOKEN_FE_PE];
        let stall = [0x4800_0000, state::TOKEN_FE_PE];
        bench.refuse_words("SEM, SEM, STALL", &[arm, arm, stall].concat())?;
        bench.refuse_words("SEM, SEM", &[arm, arm].concat())?;
        bench.refuse_words("SEM, SEM, STALL, STALL", &[arm, arm, stall, stall].concat())?;
        bench.accept_words("one behind the other", &[arm, stall, arm, stall].concat())
    });
    suite.test("the kick of the 2D filter is a draw", move || {
        let identity = *bench.paint.borrow().client.identity();
        let kick = [0x0801_0000 | (0x1294 / 4), 0x1];
        if !has_2d(&identity) {
            return bench.refuse_words("without a 2D engine", &kick);
        }
        let select = [0x0801_0e00, bench.pipe().number() as u32];
        bench.refuse_words("PIPE_SELECT behind it", &[kick, select].concat())?;
        if has_3d(&identity) {
            let mut words = Stream::new();
            words.select_pipe(Pipe::Pipe2d, Pipe::Pipe3d);
            words.raw(&kick);
            bench.refuse_words("in the 3D pipe", words.words())?;
        }
        let fixed = [0x0c01_0000 | (0x1294 / 4), 0x1];
        bench.refuse_words("as a fixed point number", &fixed)
    });
    suite.test("PIPE_SELECT while draws may be under way", move || {
        const ARM: [u32; 2] = [0x0801_0e02, state::TOKEN_FE_PE];
        const WAIT: [u32; 2] = [0x4800_0000, state::TOKEN_FE_PE];
        let select = [0x0801_0e00, bench.pipe().number() as u32];
        let draw = bench.stream().words().to_vec();
        let flush = [0x0801_0e03, 0xb];
        for (what, words) in [
            ("at once", vec![&select[..]]),
            ("behind a flush", vec![&flush[..], &select]),
            ("behind a semaphore", vec![&ARM[..], &select]),
            (
                "behind another semaphore's stall",
                vec![&[0x0801_0e02, 0x501, 0x4800_0000, 0x501][..], &select],
            ),
            (
                "behind a draw behind the stall",
                vec![&ARM[..], &WAIT, &draw, &select],
            ),
            (
                "behind a draw behind the semaphore",
                vec![&ARM[..], &draw, &WAIT, &select],
            ),
            (
                "after a stall by the state 0x3c00",
                vec![&ARM[..], &[0x0801_0f00, state::TOKEN_FE_PE], &select],
            ),
            // The stall may belong to the first of two semaphores.
            (
                "behind a semaphore armed twice",
                vec![&ARM[..], &draw, &ARM, &WAIT, &select],
            ),
        ] {
            bench.refuse_words(what, &words.concat())?;
        }
        let good = [&draw[..], &ARM, &WAIT, &select].concat();
        bench.accept_words("stalled for", &good)?;
        bench.accept_words("before any draw", &select)
    });
    suite.test("numbers to be converted where values count", move || {
        for (address, value) in [
            (state::PIPE_SELECT, bench.pipe().number() as u32),
            (state::SEMAPHORE_TOKEN, state::TOKEN_FE_PE),
            (0x3c00, state::TOKEN_FE_PE),
            (state::RS_KICKER, state::RS_KICK),
        ] {
            let stall = [
                0x0801_0e02,
                state::TOKEN_FE_PE,
                0x4800_0000,
                state::TOKEN_FE_PE,
            ];
            let words = [0x0c01_0000 | (address / 4), value];
            let what = format!("state {address:#x} as a fixed point number");
            bench.refuse_words(&what, &[&stall[..], &words].concat())?;
        }
        Ok(())
    });
    suite.test("what honest streams hold is let through", move || {
        bench.accept_words("NOP", &[0x1800_0000, 0xdead_dead])?;
        bench.accept_words("delay states 0 and 1", &[0x0801_0000, 0, 0x0801_0001, 0])?;
        bench.accept_words(
            "semaphore and stall",
            &[0x0801_0e02, 0x701, 0x4800_0000, 0x701],
        )?;
        bench.accept_words("cache flush", &[0x0801_0e03, 0xb])?;
        bench.accept_words(
            "garbage in padding words",
            &[
                match bench.pipe() {
                    // DE_CLIP, SE_SCISSOR.
                    Pipe::Pipe2d => 0x0802_0498,
                    Pipe::Pipe3d => 0x0802_0300,
                },
                0,
                0,
                0xffff_ffff,
            ],
        )
    });
}

fn main() -> ExitCode {
    harness::program(|| {
        let bench = Bench::new()?;
        let violations = bench.control.violations();
        let mut suite = Suite::new();
        record_tests(&mut suite, &bench);
        stream_tests(&mut suite, &bench);
        let bench = &bench;
        suite.test("none of this made the GPU complain", move || {
            same("violations", bench.control.violations(), violations)
        });
        suite.run()
    })
}
