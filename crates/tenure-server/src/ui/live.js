// The stream of changes: one for each tab. It is read with `fetch`, because an `EventSource` can't
// send the header `Authorization`.

import { Refusal, send, store } from './api.js';

/** @import { Live } from './types' */

const [FIRST_DELAY_MS, LAST_DELAY_MS] = [1000, 30000];

/** @type {Live} */
export const live = {
	connection: 'connecting', nextTry: 0, isTrying: false,
	onChange: () => {}, onConnection: () => {}, onRefusal: () => {},
};

/** @type {AbortController | null} */
let reading = null;
let [lastId, failures, timer] = ['', 0, 0];

/** Splits a stream into events (HTML standard, 9.2.6). @param {ReadableStream<Uint8Array>} stream */
export async function* events(stream) {
	const reader = stream.getReader();
	const decoder = new TextDecoder();
	let [rest, event, data, id] = ['', '', '', ''];
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		store.heard = Date.now();
		// A carriage return at the end may be the first half of a line's end.
		const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
		rest = lines.pop() ?? '';
		for (const line of lines) {
			const [, field, text = ''] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
			if (field === 'event') event = text;
			else if (field === 'data') data += data ? `\n${text}` : text;
			else if (field === 'id') id = text;
			if (line) continue;
			if (data) yield { event, data, id };
			[event, data] = ['', ''];
		}
	}
}

/** Connects now. */
export async function open() {
	stop();
	const own = new AbortController();
	reading = own;
	live.isTrying = true;
	if (live.connection !== 'down') become('connecting');
	try {
		const headers = new Headers({ Accept: 'text/event-stream' });
		if (lastId) headers.set('Last-Event-ID', lastId);
		const { body } = await send('v1/events', { headers, signal: own.signal });
		if (reading !== own || !body) return;
		failures = 0;
		become('live');
		for await (const { event, data, id } of events(body)) {
			if (reading !== own) return;
			lastId = id || lastId;
			live.onChange(event, JSON.parse(data));
		}
	} catch (error) {
		if (reading === own && error instanceof Refusal && [401, 403].includes(error.status)) {
			close();
			return live.onRefusal(error);
		}
	}
	if (reading === own) lost();
}

/** The connection is lost: tries again, later each time. */
export function lost() {
	stop();
	const most = Math.min(FIRST_DELAY_MS * 2 ** failures, LAST_DELAY_MS);
	failures += 1;
	// Jitter, so that the pages of a store that starts again do not come all at once.
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
	reading?.abort();
	reading = null;
}

/** @param {Live['connection']} connection */
function become(connection) {
	live.connection = connection;
	live.isTrying &&= connection === 'connecting';
	live.onConnection();
}
