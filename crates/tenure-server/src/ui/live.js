// The stream of changes: one for each tab, read with `fetch`, because an `EventSource` can't send
// the header `Authorization`.

import { Refusal, heard, refusal, target } from './api.js';

/** @typedef {{event: string, data: any}} StreamEvent */
/** @typedef {'connecting' | 'live' | 'down' | 'paused'} Connection */

const FIRST_DELAY_MS = 1000;
const LAST_DELAY_MS = 30000;

/** Without a byte for this long, the store or the network is gone: it sends one each 15 s. */
const SILENCE_MS = 20000;

/**
 * Splits a stream into server-sent events (HTML standard, 9.2.6).
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {AsyncGenerator<{event: string, data: string, id: string | null}>}
 */
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let event = '';
  /** @type {string[]} */
  let data = [];
  /** @type {string | null} */
  let id = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length) yield { event: event || 'message', data: data.join('\n'), id };
        event = '';
        data = [];
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') event = text;
      else if (field === 'data') data.push(text);
      else if (field === 'id' && !text.includes('\0')) id = text;
    }
  }
}

/** A stream that connects again after it ends, until it is closed. */
export class Live {
  /**
   * @param {(event: StreamEvent) => void} onEvent
   * @param {(connection: Connection) => void} onConnection
   * @param {(refusal: Refusal) => void} onRefusal
   */
  constructor(onEvent, onConnection, onRefusal) {
    this.onEvent = onEvent;
    this.onConnection = onConnection;
    this.onRefusal = onRefusal;
    /** @type {Connection} */
    this.connection = 'paused';
    /** When the page connects again, by this machine's clock. */
    this.nextTry = 0;
    /** @type {string | null} */
    this.lastId = null;
    this.failures = 0;
    /** @type {AbortController | null} */
    this.abort = null;
    this.timer = 0;
  }

  /** Connects now. */
  open() {
    this.stop();
    if (this.connection !== 'down') this.become('connecting');
    const abort = new AbortController();
    this.abort = abort;
    this.read(abort).then(
      () => this.failed(abort),
      (error) => (error instanceof Refusal && [401, 403].includes(error.status)
        ? this.refused(abort, error) : this.failed(abort)),
    );
  }

  /** Closes the stream, until `open` is called. The next stream continues where this one was. */
  close() {
    this.stop();
    this.become('paused');
  }

  /** Ends the stream because the connection is known to be lost, and connects again. */
  lost() {
    if (this.abort && this.connection !== 'paused') this.failed(this.abort);
  }

  /** @param {AbortController} abort */
  async read(abort) {
    const { url, headers } = target('v1/events');
    headers.set('Accept', 'text/event-stream');
    if (this.lastId) headers.set('Last-Event-ID', this.lastId);
    let silence = this.endAfterSilence(abort);
    try {
      const response = await fetch(url, {
        headers, signal: abort.signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
      });
      if (!response.ok || !response.body) throw await refusal(response);
      heard();
      this.failures = 0;
      this.become('live');
      const watched = response.body.pipeThrough(new TransformStream({
        transform: (bytes, out) => {
          clearTimeout(silence);
          silence = this.endAfterSilence(abort);
          out.enqueue(bytes);
        },
      }));
      for await (const { event, data, id } of events(watched)) {
        if (abort.signal.aborted) return;
        if (id !== null) this.lastId = id;
        this.onEvent({ event, data: JSON.parse(data) });
      }
    } finally {
      clearTimeout(silence);
    }
  }

  /** @param {AbortController} abort */
  endAfterSilence(abort) {
    return setTimeout(() => abort.abort(), SILENCE_MS);
  }

  /** @param {AbortController} abort @param {Refusal} refusal */
  refused(abort, refusal) {
    if (this.abort !== abort) return;
    this.close();
    this.onRefusal(refusal);
  }

  /** @param {AbortController} abort the stream that failed, unless another one replaced it */
  failed(abort) {
    if (this.abort !== abort) return;
    this.stop();
    const most = Math.min(FIRST_DELAY_MS * 2 ** this.failures, LAST_DELAY_MS);
    // Jitter, so that the pages of a store that starts again do not all come at once.
    const delay = most * (0.5 + Math.random() / 2);
    this.failures += 1;
    this.nextTry = Date.now() + Math.max(delay, FIRST_DELAY_MS * 0.75);
    this.timer = setTimeout(() => this.open(), this.nextTry - Date.now());
    this.become('down');
  }

  stop() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /** @param {Connection} connection */
  become(connection) {
    this.connection = connection;
    this.onConnection(connection);
  }
}
