// The stream of changes: one for each tab. It is read with `fetch`, because an `EventSource` can't
// send the header `Authorization`.

import { Refusal, send, store } from './api.js';

const [FIRST_DELAY_MS, LAST_DELAY_MS] = [1000, 30000];

/** @type {Live} */
export const live = { connection: 'connecting', nextTry: 0, onChange: () => {}, onConnection: () => {} };

let reading = new AbortController();
let [lastId, failures, timer] = ['', 0, 0];

/** Splits a stream into server-sent events. @param {ReadableStream<Uint8Array>} stream */
async function* events(stream) {
	const reader = stream.getReader();
	const decoder = new TextDecoder();
	for (let rest = ''; ;) {
		const { done, value } = await reader.read();
		if (done) return;
		store.heard = Date.now();
		const blocks = (rest + decoder.decode(value, { stream: true })).replaceAll('\r\n', '\n').split('\n\n');
		rest = blocks.pop() ?? '';
		for (const block of blocks) {
			/** @type {Record<string, string>} */
			const fields = {};
			for (const [, name = '', text = ''] of block.matchAll(/^(\w+): ?(.*)$/gm)) fields[name] = text;
			const { event = '', data, id = '' } = fields;
			if (data) yield { event, data, id };
		}
	}
}

export async function open() {
	stop();
	const { signal } = reading = new AbortController();
	live.nextTry = 0;
	if (live.connection !== 'down') become('connecting');
	try {
		const headers = new Headers({ Accept: 'text/event-stream' });
		if (lastId) headers.set('Last-Event-ID', lastId);
		const { body } = await send('v1/events', { headers, signal });
		if (signal.aborted || !body) return;
		failures = 0;
		become('live');
		for await (const { event, data, id } of events(body)) {
			if (signal.aborted) return;
			lastId = id || lastId;
			live.onChange(event, JSON.parse(data));
		}
	} catch (error) {
		if (!signal.aborted && error instanceof Refusal && [401, 403].includes(error.status)) {
			close();
			return store.failed(error);
		}
	}
	if (!signal.aborted) lost();
}

/** The connection is lost: tries again, later each time. */
export function lost() {
	if (live.nextTry > Date.now()) return;
	stop();
	const most = Math.min(FIRST_DELAY_MS * 2 ** failures, LAST_DELAY_MS);
	failures += 1;
	// Jitter: the pages of a store that starts must not come all at once.
	const delay = Math.max(FIRST_DELAY_MS, most * (0.5 + Math.random() / 2));
	live.nextTry = Date.now() + delay;
	timer = setTimeout(open, delay);
	become('down');
}

/** Closes the stream. The next one continues where this one was. */
export function close() {
	stop();
	become('connecting');
}

function stop() {
	clearTimeout(timer);
	reading.abort();
}

/** @param {Live['connection']} connection */
function become(connection) {
	live.connection = connection;
	live.onConnection();
}
