// What line charts share: the range of an axis, the nearest point, the words of a tick.

export interface Series {
  name: string;
  colour: string;
  points: [number, number][];
  /** Thin and pale: the background of another line. */
  faint?: boolean;
  /** A mark at each point. */
  marked?: boolean;
}

/** The smallest and the largest of the values, or of those above 0 for a logarithmic axis; a little wider where they are equal. */
export function extent(values: number[], log = false): [number, number] {
  const fit = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!fit.length) return log ? [0.1, 1] : [0, 1];
  let [low, high] = [Infinity, -Infinity];
  for (const value of fit) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low < high) return [low, high];
  return log ? [low / 2, high * 2] : [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
}

/** The place of the x nearest to a wanted one, in ascending numbers; -1: there are none. */
export function nearest(xs: number[], wanted: number): number {
  let best = -1;
  xs.forEach((x, i) => {
    if (best < 0 || Math.abs(x - wanted) < Math.abs(xs[best] - wanted)) best = i;
  });
  return best;
}

/** Every x of any series, in order, once. */
export function placesOf(series: Series[]): number[] {
  return [...new Set(series.flatMap((each) => each.points.map(([x]) => x)))].sort((a, b) => a - b);
}

/** The value of a series at x, or at its last point before. */
export function valueAt(points: [number, number][], x: number): number | null {
  let found: number | null = null;
  for (const [at, value] of points) {
    if (at > x) break;
    found = value;
  }
  return found;
}

/** Short words for a tick: 1,500 and 20k, 0.0005 and 1e−7. */
export function tick(value: number): string {
  const size = Math.abs(value);
  if (size >= 10000) return `${Number((value / 1000).toFixed(1)).toLocaleString('en')}k`;
  if (size >= 1 || value === 0) return Number(value.toFixed(2)).toLocaleString('en');
  return String(Number(value.toPrecision(3))).replaceAll('-', '−');
}

/** At most seven of the ticks of a logarithmic axis: all, those that begin with 1, 2 or 5, or the powers of ten. */
export function fewTicks(all: number[]): number[] {
  const first = (value: number) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  const choices = [all, all.filter((value) => [1, 2, 5].includes(first(value))), all.filter((value) => first(value) === 1)];
  return choices.find((each) => each.length <= 7) ?? choices[2];
}
