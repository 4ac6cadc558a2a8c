// The terms of an election over time: a line for each leader, and one for the times without one.
// The table of terms has the same content as text.

import { clock, fill, many, precise } from './dom.js';

const MOST_LINES = 10;
/** The distances of the marks of the axis, in seconds. */
const STEPS = [5, 30, 120, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800, 2592000, 31536000];

/** @param {string | null} time */
const parse = (time, otherwise = 0) => (time ? Date.parse(time) : otherwise);

/** The times without a leader. @param {Term[]} terms newest first @param {Span} span */
export function gaps(terms, { from, to }) {
	return terms.flatMap(({ began_at, ended_at }) => {
		const gap = { from: Math.max(parse(ended_at, to), from), to };
		to = parse(began_at, gap.from);
		return gap.to > gap.from ? [gap] : [];
	});
}

/** @param {string} name @param {Attributes} attributes @param {...Child} children */
const svg = (name, attributes, ...children) =>
	fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, ...children);

/** @param {Element} at @param {Term[]} terms newest first @param {Span[]} free @param {Span} span */
export function draw(at, terms, free, { from, to }) {
	const width = at.clientWidth;
	const seen = terms.filter(({ ended_at }) => parse(ended_at, to) > from);
	const holders = [...new Set(seen.map(({ holder }) => holder))];
	const names = holders.slice(0, MOST_LINES);
	if (holders.length > MOST_LINES) names.push(`${holders.length - MOST_LINES} others`);
	names.push('nobody');

	const isNarrow = width < 560;
	const [left, pitch, first, most] = isNarrow ? [0, 42, 18, width / 8] : [150, 26, 6, 18];
	const height = names.length * pitch + 22;
	const x = (time = 0) => left + (Math.max(time - from, 0) / (to - from)) * (width - left);
	const y = (line = 0) => line * pitch + first;
	const label = `${many(seen.length, 'term')} of ${many(holders.length, 'candidate')} since ${clock(from)}, ${many(free.length, 'gap')}`;
	const drawing = svg('svg', { width, height, role: 'img', 'aria-label': label });
	const write = (text = '', x = 0, y = 0, kind = '', anchor = 'start') =>
		drawing.append(svg('text', { class: kind, x, y, 'text-anchor': anchor }, text));
	const rule = (d = '') => drawing.append(svg('path', { class: 'rule', d }));
	const bar = (kind = '', line = 0, start = 0, end = 0, title = '') => drawing.append(svg('rect', {
		class: kind, x: x(start), y: y(line), width: Math.max(3, x(end) - x(start) - 1), height: 14, rx: 2,
	}, svg('title', {}, `${title}: ${clock(start)}, ${precise(end - start)}`)));

	const step = 1000 * (STEPS.find((size) => (to - from) / size / 1000 <= Math.max(2, width / 110)) ?? 1e9);
	for (let time = Math.ceil(from / step) * step; time < to; time += step) {
		rule(`M${x(time)} 0V${height - 18}`);
		const [day, hour = ''] = clock(time).split(', ');
		const text = step < 86400_000 ? hour.slice(0, step < 60_000 ? 8 : 5) : day;
		if (x(time) - left > 24 && width - x(time) > 24) write(text, x(time), height - 4, '', 'middle');
	}
	names.forEach((name, line) => {
		write(name.length > most ? `${name.slice(0, most - 1)}…` : name, 0, y(line) + (isNarrow ? -5 : 11), 'label');
		rule(`M${left} ${y(line) + 7}H${width}`);
	});
	for (const { holder, began_at, ended_at } of seen) {
		const line = names.indexOf(holder);
		bar(ended_at ? 'term' : 'term now', line < 0 ? MOST_LINES : line, parse(began_at, from), parse(ended_at, to), holder);
	}
	free.forEach((gap, index) => {
		bar('gap', names.length - 1, gap.from, gap.to, 'nobody');
		const text = precise(gap.to - gap.from);
		// The number stands before the gap, if there is room after the gap before it.
		const room = x(gap.from) - (free[index + 1] ? x(free[index + 1]?.to) : left);
		if (room > text.length * 7 + 8) write(text, x(gap.from) - 4, y(names.length - 1) + 11, 'gap-text', 'end');
	});
	at.replaceChildren(drawing);
}
