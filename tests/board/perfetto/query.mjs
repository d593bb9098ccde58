// SPDX-License-Identifier: GPL-2.0-only
// Opens a trace with Perfetto's trace processor, like its web page, and runs queries: prints one JSON object for each
// row of each query. `scripts/perfetto` calls it with the folder of the page's files:
//
//	node query.mjs FOLDER TRACE SQL...
//
// The processor is a WebAssembly module inside a worker's script. Requests and answers are messages of
// `trace_processor.proto`; this file encodes and decodes only the parts that it uses.

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const APPEND = 1, FINALIZE = 2, QUERY = 3;
// Bytes of a trace per message.
const CHUNK = 1 << 20;

function varint(value) {
	const bytes = [];
	for (; value > 127; value = Math.floor(value / 128))
		bytes.push(value % 128 | 128);
	return Buffer.from([...bytes, value]);
}

function number(field, value) {
	return Buffer.concat([varint(field * 8), varint(value)]);
}

function bytes(field, content) {
	return Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);
}

// Decodes the fields of a message as [number, value]. A value is a BigInt or bytes.
function* fields(message) {
	let at = 0;
	const read = () => {
		let value = 0n;
		for (let shift = 0n; ; shift += 7n) {
			const byte = message[at++];
			value |= BigInt(byte & 127) << shift;
			if (byte < 128)
				return value;
		}
	};
	while (at < message.length) {
		const tag = Number(read());
		const take = (length) => message.subarray(at, at += length);
		switch (tag & 7) {
		case 0: yield [tag >> 3, read()]; break;
		case 1: yield [tag >> 3, take(8)]; break;
		case 2: yield [tag >> 3, take(Number(read()))]; break;
		case 5: yield [tag >> 3, take(4)]; break;
		default: throw new Error(`wire type of tag ${tag}`);
		}
	}
}

function* varints(packed) {
	let value = 0n, shift = 0n;
	for (const byte of packed) {
		value |= BigInt(byte & 127) << shift;
		shift += 7n;
		if (byte < 128) {
			yield value;
			value = shift = 0n;
		}
	}
}

// The processor's answers, in order.
const answers = [];
let answered = null;
function reply(stream) {
	for (const [field, message] of fields(Buffer.from(stream)))
		if (field === 1)
			answers.push(message);
	answered?.();
}

async function answer() {
	while (answers.length === 0)
		await new Promise((resolve) => answered = resolve);
	return answers.shift();
}

async function start(folder) {
	const script = path.join(folder, 'engine_bundle.js');
	const worker = {
		// The processor's own messages are not rows.
		console: { ...console, log: () => {}, warn: () => {} },
		WebAssembly, TextDecoder, TextEncoder, performance, URL, setTimeout, clearTimeout,
		crypto, queueMicrotask, TypeError,
		WorkerGlobalScope: function () {},
		location: { href: `file://${script}` },
		// The script loads its module with this.
		XMLHttpRequest: class {
			open(method, url) { this.file = path.join(folder, path.basename(url)); }
			send() { this.response = new Uint8Array(fs.readFileSync(this.file)).buffer; this.status = 200; }
		},
	};
	worker.self = worker.globalThis = worker;
	vm.runInNewContext(fs.readFileSync(script, 'utf8'), worker, { filename: script });
	const port = { postMessage: reply };
	worker.onmessage({ data: port });
	// The script creates the module at once. It is ready after this.
	await new Promise((resolve) => setTimeout(resolve, 0));
	return { port, Bytes: vm.runInContext('Uint8Array', worker) };
}

let sequence = 0;
function ask(engine, method, ...more) {
	const message = Buffer.concat([number(1, sequence++), number(2, method), ...more]);
	engine.port.onmessage({ data: engine.Bytes.from(bytes(1, message)) });
}

// Decodes the rows of a query's answer. Throws if the answer has an error.
function rows(result, columns, found) {
	for (const [field, value] of fields(result)) {
		if (field === 1)
			columns.push(`${value}`);
		else if (field === 2 && value.length > 0)
			throw new Error(`${value}`);
		else if (field === 3)
			batch(value, columns, found);
	}
	return found;
}

function batch(message, columns, found) {
	const cells = { kinds: [], numbers: [], doubles: [], texts: [] };
	for (const [field, value] of fields(message)) {
		switch (field) {
		case 1: cells.kinds.push(...value); break;
		case 2: cells.numbers.push(...varints(value)); break;
		case 3:
			for (let at = 0; at < value.length; at += 8)
				cells.doubles.push(value.readDoubleLE(at));
			break;
		case 5: cells.texts.push(...`${value}`.split('\0').slice(0, -1)); break;
		}
	}
	let row = {};
	cells.kinds.forEach((kind, index) => {
		const column = columns[index % columns.length];
		switch (kind) {
		case 1: row[column] = null; break;
		case 2: row[column] = Number(BigInt.asIntN(64, cells.numbers.shift())); break;
		case 3: row[column] = cells.doubles.shift(); break;
		case 4: row[column] = cells.texts.shift(); break;
		default: throw new Error(`a cell of kind ${kind}`);
		}
		if (index % columns.length === columns.length - 1) {
			found.push(row);
			row = {};
		}
	});
}

const [folder, trace, ...queries] = process.argv.slice(2);
// The script is one line, so node's report of an error in it would be useless.
process.on('uncaughtException', (error) => {
	console.error(`trace processor: ${error?.message ?? error}`);
	process.exit(1);
});
const engine = await start(folder);
const content = fs.readFileSync(trace);
for (let at = 0; at < content.length; at += CHUNK) {
	ask(engine, APPEND, bytes(101, content.subarray(at, at + CHUNK)));
	for (const [field, value] of fields(await answer()))
		if (field === 201)
			for (const [inner, error] of fields(value))
				if (inner === 2 && error.length > 0)
					throw new Error(`${error}`);
}
ask(engine, FINALIZE);
await answer();
for (const sql of queries) {
	ask(engine, QUERY, bytes(103, bytes(1, Buffer.from(sql))));
	const columns = [], found = [];
	for (let is_last = false; !is_last;) {
		for (const [field, value] of fields(await answer())) {
			if (field !== 203)
				continue;
			rows(value, columns, found);
			is_last = true;
			for (const [inner, part] of fields(value))
				if (inner === 3)
					is_last = [...fields(part)].some(([last, on]) => last === 6 && on === 1n);
		}
	}
	for (const row of found)
		console.log(JSON.stringify(row));
}
process.exit(0);
