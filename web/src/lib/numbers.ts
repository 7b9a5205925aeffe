/** Three significant digits, as everywhere on the page. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? '∞' : value < 0 ? '−∞' : 'NaN';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 0.0005) return value.toExponential(1).replaceAll('-', '−');
  if (size >= 99999.5) return value.toExponential(2).replaceAll('-', '−');
  const places = Math.max(0, 2 - Math.floor(Math.log10(size) + 1e-12));
  return value.toFixed(Math.min(places, 3)).replaceAll('-', '−');
}

export function percent(p: number): string {
  if (p >= 0.9995) return '100 %';
  return p < 0.0005 ? '< 0.1 %' : `${(100 * p).toFixed(1)} %`;
}

export function count(value: number): string {
  return value.toLocaleString('en');
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
