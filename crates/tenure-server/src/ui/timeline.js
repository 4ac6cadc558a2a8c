// The terms of an election over time: a line for each leader, and one for the times without one.
// The table of terms has the same content as text.

import { clock, many, precise } from './dom.js';

/** @import { Span, Term } from './types' */

const BAR = 14;
const AXIS = 22;
const MOST_LINES = 10;
/** The distances of the marks of the axis, in seconds. */
const STEPS = [5, 30, 120, 600, 900, 3600, 7200, 21600, 43200, 86400, 604800, 2592000, 31536000];

/**
 * The times without a leader: between terms, and after the last one.
 * @param {Term[]} terms newest first
 * @param {Span} span
 * @returns {Span[]}
 */
export function gaps(terms, span) {
	let until = span.to;
	return terms.flatMap(({ began_at, ended_at }) => {
		const gap = { from: Math.max(ended_at ? Date.parse(ended_at) : until, span.from), to: until };
		until = Date.parse(began_at ?? '') || gap.from;
		return gap.to > gap.from ? [gap] : [];
	});
}

/** @param {string} name @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function svg(name, attributes, ...children) {
	const made = document.createElementNS('http://www.w3.org/2000/svg', name);
	for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
	made.append(...children);
	return made;
}

/** @param {Element} at @param {Term[]} terms newest first @param {Span[]} free @param {Span} span */
export function draw(at, terms, free, span) {
	const width = at.clientWidth;
	const seen = terms.filter(({ ended_at }) => !ended_at || Date.parse(ended_at) > span.from);
	const holders = [...new Set(seen.map(({ holder }) => holder))];
	const names = holders.slice(0, MOST_LINES);
	if (holders.length > MOST_LINES) names.push(`${holders.length - MOST_LINES} others`);
	names.push('nobody');

	const isNarrow = width < 560;
	const [left, pitch, first] = isNarrow ? [0, 42, 18] : [150, 26, 6];
	const height = names.length * pitch + AXIS;
	const x = (/** @type {number} */ time) => left
		+ (Math.max(time - span.from, 0) / (span.to - span.from)) * (width - left);
	const y = (/** @type {number} */ line) => line * pitch + first;

	const label = `${many(seen.length, 'term')} of ${many(holders.length, 'candidate')} since `
		+ `${clock(span.from)}, ${many(free.length, 'time')} without a leader. The table has the details.`;
	const drawing = svg('svg', { width, height, role: 'img', 'aria-label': label },
		svg('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
			svg('path', { class: 'hatch', d: 'M1 0v6' })));
	drawing.append(...axis(span, x, height, width - left));
	names.forEach((name, line) => {
		const most = isNarrow ? width / 8 : 18;
		const shown = name.length > most ? `${name.slice(0, most - 1)}…` : name;
		drawing.append(svg('text', { class: 'label', x: 0, y: y(line) + (isNarrow ? -5 : 11) }, shown),
			svg('path', { class: 'rule', d: `M${left} ${y(line) + BAR / 2}H${width}` }));
	});
	/** @type {(name: string, line: number, span: Span, title: string) => void} */
	const bar = (name, line, { from, to }, title) => drawing.append(svg('rect', {
		class: name, x: x(from), y: y(line), width: Math.max(3, x(to) - x(from) - 1), height: BAR, rx: 2,
	}, svg('title', {}, `${title}: ${clock(from)}, ${precise(to - from)}`)));
	for (const { holder, began_at, ended_at } of seen) {
		const from = Date.parse(began_at ?? '') || span.from;
		const line = names.indexOf(holder);
		const to = ended_at ? Date.parse(ended_at) : span.to;
		bar(ended_at ? 'term' : 'term now', line < 0 ? MOST_LINES : line, { from, to }, holder);
	}
	free.forEach((gap, at) => {
		bar('gap', names.length - 1, gap, 'nobody');
		const text = precise(gap.to - gap.from);
		// The number stands before the gap, if there is room after the gap before it.
		const older = free[at + 1];
		if (x(gap.from) - (older ? x(older.to) : left) < text.length * 7 + 8) return;
		drawing.append(svg('text', {
			class: 'gap-text', x: x(gap.from) - 4, y: y(names.length - 1) + 11, 'text-anchor': 'end',
		}, text));
	});
	at.replaceChildren(drawing);
}

/**
 * The marks of the axis.
 * @param {Span} span @param {(time: number) => number} x @param {number} height @param {number} width
 */
function axis({ from, to }, x, height, width) {
	const most = Math.max(2, width / 110);
	const seconds = (to - from) / 1000;
	const step = 1000 * (STEPS.find((size) => seconds / size <= most) ?? seconds);
	const zone = new Date(to).getTimezoneOffset() * 60_000;
	const marks = [];
	for (let time = Math.ceil((from - zone) / step) * step + zone; time < to; time += step) {
		const text = step >= 86400_000 ? clock(time).replace(/,.*/, '')
			: clock(time, true).slice(0, step < 60_000 ? 8 : 5);
		marks.push(svg('path', { class: 'rule', d: `M${x(time)} 0V${height - AXIS + 4}` }));
		if (Math.min(x(time) - x(from), x(to) - x(time)) < 24) continue;
		marks.push(svg('text', { x: x(time), y: height - 4, 'text-anchor': 'middle' }, text));
	}
	return marks;
}
