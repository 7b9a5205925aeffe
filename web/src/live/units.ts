// From tokens to what a person points at: words and punctuation marks, each with its place in the text.

export interface Unit {
  /** Where it stands in the text. */
  start: number;
  end: number;
  /** The tokens that it consists of: from, to (exclusive). */
  from: number;
  to: number;
}

const MARKS = /^##|@@$|▁/g;
const SPECIAL = /^<[a-z/]+>$/;
/** Scripts that are written without spaces: there a token is a unit. */
const UNSPACED = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Thai}|\p{Script=Lao}|\p{Script=Khmer}|\p{Script=Myanmar}/u;
const INNER = /['’\-_]/;
const WORD = /[\p{L}\p{M}\p{N}]/u;

/** Where each token stands in the text; a token that is not there has no width. */
export function placed(tokens: string[], text: string): { start: number; end: number }[] {
  const folded = text.toLowerCase();
  let at = 0;
  return tokens.map((token) => {
    const surface = SPECIAL.test(token) ? '' : token.replace(MARKS, '').trim();
    if (!surface) return { start: at, end: at };
    const found = folded.indexOf(surface.toLowerCase(), at);
    // Far ahead it is another occurrence: the token was normalised or is a byte.
    const start = found < 0 || found > at + surface.length + 8 ? -1 : found;
    if (start < 0) return { start: at, end: at };
    at = start + surface.length;
    return { start, end: at };
  });
}

function apart(text: string, left: number, right: number): boolean {
  if (/\s/.test(text.slice(left, right))) return true;
  const before = text[left - 1] ?? '';
  const after = text[right] ?? '';
  if (UNSPACED.test(before) || UNSPACED.test(after)) return true;
  if (INNER.test(before) || INNER.test(after)) return false;
  return WORD.test(before) !== WORD.test(after);
}

/** The words and marks of a text, in order; tokens without a width belong to the unit after them. */
export function units(tokens: string[], text: string): Unit[] {
  const places = placed(tokens, text);
  const made: Unit[] = [];
  let first = 0;
  places.forEach((place, index) => {
    if (place.start === place.end) return;
    const last = made.at(-1);
    if (last && !apart(text, last.end, place.start)) {
      last.end = place.end;
      last.to = index + 1;
    } else made.push({ start: place.start, end: place.end, from: first, to: index + 1 });
    first = index + 1;
  });
  return made.map((unit) => grown(unit, text, made));
}

/** With the letters around it that no token gave, such as the bytes of a rare sign. */
function grown(unit: Unit, text: string, all: Unit[]): Unit {
  const next = all[all.indexOf(unit) + 1];
  const limit = next ? next.start : text.length;
  let { end } = unit;
  while (end < limit && !/\s/.test(text[end])) end++;
  return { ...unit, end };
}

/** p of all tokens of a unit, from their log-probabilities; null: unknown. */
export function probability(unit: Unit, scores: number[]): number | null {
  if (scores.length < unit.to) return null;
  return Math.exp(scores.slice(unit.from, unit.to).reduce((sum, each) => sum + each, 0));
}

/** How much a unit looked at each unit of the source: the mean over its tokens, summed over theirs. */
export function looks(unit: Unit, alignment: number[][], source: Unit[]): number[] {
  const rows = alignment.slice(unit.from, unit.to);
  return source.map((from) => {
    const sums = rows.map((row) => row.slice(from.from, from.to).reduce((sum, each) => sum + each, 0));
    return sums.length ? sums.reduce((sum, each) => sum + each, 0) / sums.length : 0;
  });
}

/** Whether the same number, name or longer word stands in the source; short words of two languages look alike. */
export function copied(unit: Unit, text: string, source: string): boolean {
  const word = text.slice(unit.start, unit.end);
  if (!/\p{L}{4}|^\p{Lu}\p{L}|\p{N}/u.test(word)) return false;
  return source.split(/[^\p{L}\p{M}\p{N}]+/u).includes(word);
}

export interface Change {
  text: string;
  kind: 'same' | 'new' | 'gone';
}

/** The words of two texts, marked by what changed (longest common subsequence). */
export function changes(before: string, after: string): Change[] {
  const a = before.split(/\s+/).filter(Boolean);
  const b = after.split(/\s+/).filter(Boolean);
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const found: Change[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ text: a[i++], kind: 'same' });
      j++;
    } else if (i < a.length && (j === b.length || best[i + 1][j] >= best[i][j + 1])) found.push({ text: a[i++], kind: 'gone' });
    else found.push({ text: b[j++], kind: 'new' });
  }
  return found;
}
